// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

// echo serve PORT N: serve N connections to their ends.
// echo call PORT N: N goroutines talk to it, each on a connection of its own.
package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"strconv"
)

const rounds = 300

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

func serve(address string, n int) {
	listener, err := net.Listen("tcp", address)
	fail(err)
	done := make(chan error)
	for i := 0; i < n; i++ {
		c, err := listener.Accept()
		fail(err)
		go func() {
			buffer := make([]byte, 65536)
			for {
				n, err := c.Read(buffer)
				if n > 0 {
					_, err2 := c.Write(buffer[:n])
					fail(err2)
				}
				if err == io.EOF {
					break
				}
				fail(err)
			}
			done <- c.Close()
		}()
	}
	for i := 0; i < n; i++ {
		fail(<-done)
	}
}

func talk(address string, seed int64) error {
	random := rand.New(rand.NewSource(seed))
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := 0; i < rounds; i++ {
		block := make([]byte, 1+random.Intn(20000))
		random.Read(block)
		if _, err = c.Write(block); err != nil {
			return err
		}
		back := make([]byte, len(block))
		if _, err = io.ReadFull(c, back); err != nil {
			return err
		}
		if !bytes.Equal(block, back) {
			return fmt.Errorf("round %d: other bytes came back", i)
		}
	}
	if err = c.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return fmt.Errorf("no end: %d bytes, %v", n, err)
	}
	return nil
}

func main() {
	n, err := strconv.Atoi(os.Args[3])
	fail(err)
	address := "127.0.0.1:" + os.Args[2]
	if os.Args[1] == "serve" {
		serve(address, n)
		return
	}
	done := make(chan error)
	for i := 0; i < n; i++ {
		go func(seed int64) { done <- talk(address, seed) }(int64(i))
	}
	for i := 0; i < n; i++ {
		fail(<-done)
	}
}
