import { afterEach, describe, expect, it } from 'vitest';
import { chargedSide } from '../../bench/harness/charged-side.ts';
import { type Program, start } from '../../bench/harness/programs.ts';
import { call } from '../support/http-client.ts';

const requests = 100;
/** More than what may be written when the generator ends. */
const line = 'x'.repeat(4_096);

/** Answers each request, and writes a line about every so many of them. */
const serverWriting = (each: number): string => `
let count = 0;
const server = require('node:http').createServer((request, response) => {
  if (++count % ${each} === 0) console.log('${line}');
  response.end();
});
server.listen(0, '127.0.0.1', () => console.log('port ' + server.address().port));`;

let server: Program | null = null;
afterEach(() => server?.stop());

async function measured(each: number): Promise<void> {
  const program = start({ core: 0, command: [process.execPath, '-e', serverWriting(each)] });
  server = program;
  const [, port] = await program.find(/^port (\d+)$/m);
  const side = chargedSide({
    ...{ name: 'a server', programs: [program], finish: null },
    drive: async () => {
      for (let i = 0; i < requests; i += 1) await call(`http://127.0.0.1:${port}/${i}`);
      return { done: requests, seconds: 1, generatorCpuSeconds: 0 };
    },
  });
  await side.measure(1);
}

describe('a side of the bench', () => {
  it('fails where its program logs each request', async () => {
    await expect(measured(1)).rejects.toThrow(/^a server wrote \d+ bytes about 100 requests/);
  });

  it('may log a line now and then', async () => {
    await measured(requests / 2);
  });
});
