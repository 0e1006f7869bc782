// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Random;

/*
 * Echo nio PORT N, Echo blocking PORT N: serve N connections to their ends.
 * Echo call PORT N [KIND]: N threads talk to it; children are made meanwhile.
 */
public class Echo {
	static final int ROUNDS = 300;

	static class Pending {
		final ByteBuffer buffer = ByteBuffer.allocateDirect(65536);
		boolean ended;
	}

	static boolean turn(SelectionKey key) throws IOException {
		SocketChannel channel = (SocketChannel) key.channel();
		Pending p = (Pending) key.attachment();

		if (key.isReadable() && channel.read(p.buffer) < 0)
			p.ended = true;
		p.buffer.flip();
		if (p.buffer.hasRemaining())
			channel.write(p.buffer);
		p.buffer.compact();
		if (p.ended && p.buffer.position() == 0) {
			channel.close();
			return true;
		}
		int want = p.buffer.position() > 0 ? SelectionKey.OP_WRITE : 0;
		if (!p.ended && p.buffer.hasRemaining())
			want |= SelectionKey.OP_READ;
		key.interestOps(want);
		return false;
	}

	static void nio(int port, int n) throws IOException {
		Selector selector = Selector.open();
		ServerSocketChannel listener = ServerSocketChannel.open();
		listener.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
		listener.configureBlocking(false);
		listener.register(selector, SelectionKey.OP_ACCEPT);
		while (n > 0) {
			selector.select();
			Iterator<SelectionKey> i = selector.selectedKeys().iterator();
			while (i.hasNext()) {
				SelectionKey key = i.next();
				i.remove();
				if (key.isAcceptable()) {
					SocketChannel c = listener.accept();
					if (c == null)
						continue;
					c.configureBlocking(false);
					c.register(selector, SelectionKey.OP_READ, new Pending());
				} else if (turn(key)) {
					n--;
				}
			}
		}
		listener.close();
		selector.close();
	}

	static void serve(Socket s) {
		try (s) {
			byte[] buffer = new byte[65536];
			int n;
			while ((n = s.getInputStream().read(buffer)) > 0)
				s.getOutputStream().write(buffer, 0, n);
		} catch (IOException e) {
			e.printStackTrace();
			System.exit(1);
		}
	}

	static void blocking(int port, int n) throws Exception {
		List<Thread> threads = new ArrayList<>();
		try (ServerSocket listener = new ServerSocket(port, 50, InetAddress.getLoopbackAddress())) {
			for (; n > 0; n--) {
				Socket s = listener.accept();
				Thread t = new Thread(() -> serve(s));
				t.start();
				threads.add(t);
			}
		}
		for (Thread t : threads)
			t.join();
	}

	static void talk(int port, int seed) throws Exception {
		try (Socket s = new Socket(InetAddress.getLoopbackAddress(), port)) {
			DataInputStream in = new DataInputStream(s.getInputStream());
			OutputStream out = s.getOutputStream();
			Random random = new Random(seed);

			s.setTcpNoDelay(true);
			for (int i = 0; i < ROUNDS; i++) {
				byte[] block = new byte[1 + random.nextInt(20000)], back = new byte[block.length];
				random.nextBytes(block);
				out.write(block);
				in.readFully(back);
				if (!Arrays.equals(block, back))
					throw new IOException("round " + i + ": other bytes came back");
			}
			s.shutdownOutput();
			if (in.read() >= 0)
				throw new IOException("more bytes");
		}
	}

	static void call(int port, int n, boolean children) throws Exception {
		List<Thread> threads = new ArrayList<>();
		int[] bad = new int[1];
		for (int i = 0; i < n; i++) {
			int seed = i;
			Thread t = new Thread(() -> {
				try {
					talk(port, seed);
				} catch (Exception e) {
					e.printStackTrace();
					synchronized (bad) {
						bad[0]++;
					}
				}
			});
			t.start();
			threads.add(t);
		}
		for (int i = 0; children && i < 3; i++) {
			Process p = new ProcessBuilder("/bin/echo", "hello").start();
			String out = new String(p.getInputStream().readAllBytes());
			if (p.waitFor() != 0 || !out.equals("hello\n"))
				throw new IOException("a child said " + out);
		}
		for (Thread t : threads)
			t.join();
		System.exit(bad[0] == 0 ? 0 : 1);
	}

	public static void main(String[] args) throws Exception {
		int port = Integer.parseInt(args[1]), n = Integer.parseInt(args[2]);
		if (args[0].equals("nio"))
			nio(port, n);
		else if (args[0].equals("blocking"))
			blocking(port, n);
		else
			call(port, n, args.length > 3);
	}
}
