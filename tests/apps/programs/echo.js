// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
'use strict';
// echo.js serve PORT N: serve N connections to their ends.
// echo.js call PORT N: N connections at once, each with a block under way.
const net = require('net');
const crypto = require('crypto');

const ROUNDS = 300;
const [how, port, n] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];

function fail(error) {
  console.error(String(error));
  process.exit(1);
}

function serve() {
  let left = n;
  const server = net.createServer({ allowHalfOpen: true }, (c) => {
    c.on('error', fail);
    c.on('close', () => { if (--left === 0) server.close(); });
    c.pipe(c);
  });
  server.listen(port, '127.0.0.1');
}

function talk(seed) {
  const c = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  let round = 0, block, got = 0, over = false;

  function next() {
    block = crypto.randomBytes(1 + (seed * 7919 + round * 104729) % 20000);
    got = 0;
    c.write(block);
  }
  c.on('error', fail);
  c.on('connect', next);
  c.on('data', (data) => {
    if (!data.equals(block.subarray(got, got + data.length)))
      fail(`round ${round}: other bytes came back`);
    got += data.length;
    if (got < block.length)
      return;
    if (++round < ROUNDS)
      next();
    else
      c.end();
  });
  c.on('end', () => { over = true; });
  c.on('close', () => { if (!over || round !== ROUNDS) fail(`closed in round ${round}`); });
}

if (how === 'serve')
  serve();
else
  for (let i = 0; i < n; i++)
    talk(i);
