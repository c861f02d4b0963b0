import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { freePort } from '../support/free-port.ts';

/** Another process that asks for the reservation of a port, and says whether it got it. */
function otherProcess(port: number) {
  const program = `
    const socket = require('node:dgram').createSocket('udp4');
    socket.on('error', (error) => { console.log(error.code); process.exit(); });
    socket.bind({ port: ${port}, address: '127.0.0.1', exclusive: true }, () => console.log('reserved'));`;
  return spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
}

async function saidBy(child: ReturnType<typeof otherProcess>): Promise<string> {
  const [line] = await once(child.stdout, 'data');
  return String(line).trim();
}

describe('a free port', () => {
  it('is reserved: no other process gets it while this one runs', async () => {
    const child = otherProcess(await freePort());
    expect(await saidBy(child)).toBe('EADDRINUSE');
  });

  it('is not reserved by another process, even one that does not listen', async () => {
    let port = await freePort();
    let child = otherProcess(port + 1);
    // Another worker may have that one: then the neighbour of another.
    while ((await saidBy(child)) !== 'reserved') {
      port = await freePort();
      child = otherProcess(port + 1);
    }

    expect(await freePort()).not.toBe(port + 1);
    child.kill();
  });
});
