import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Contender, contest, type Scene } from '../../bench/contest.ts';
import { measuredCore } from '../../bench/cores.ts';
import { start } from '../../bench/programs.ts';
import { warmLoad } from '../../bench/records.ts';
import { findDebianProgram } from '../support/debian-program.ts';

const contestOf = (prepare: (scene: Scene) => Promise<Contender>) =>
  contest(
    { isQuick: true, say: () => undefined },
    { row: 'permits', title: 'A server under load', notes: [] },
    async (scene) => ({ contenders: [await prepare(scene)] }),
  );
const about = { name: 'a server', does: '', doesNot: '', target: null };

/** Its first answer and every hundredth one is a PERMIT, all others are BLOCKs. */
const blocker = `
let count = 0;
const server = require('node:http').createServer((request, response) => {
  request.resume().on('end', () => {
    response.end(JSON.stringify({ decision: count++ % 100 === 0 ? 'PERMIT' : 'BLOCK' }));
  });
});
server.listen(0, '127.0.0.1', () => console.log('port ' + server.address().port));`;

async function peerThatBlocks({ folder, atEnd }: Scene): Promise<Contender> {
  const program = start({ core: measuredCore, command: [process.execPath, '-e', blocker] });
  atEnd(() => program.stop());
  const [, port] = await program.find(/^port (\d+)$/m);
  const url = `http://127.0.0.1:${port}/`;
  const load = { url, headers: {}, body: '{}', scriptPath: join(folder, 'blocker.lua') };
  return { ...about, program, load: { ...load, permitsEach: 1 }, finish: null };
}

/** The programs of the bench run as this test does. */
const asSource = { NODE_OPTIONS: '--import tsx' };

/** Every second request asks for more than its gate permits. */
async function sidecarThatBlocks(scene: Scene): Promise<Contender> {
  const installation = await scene.installed({
    ...{ sidecarSettings: asSource, controlPlaneSettings: asSource, isControlPlaneHurried: true },
  });
  const { program, load } = await warmLoad(scene, installation, 'blocking');
  const { passport, request } = JSON.parse(load.body);
  const tooMuch = { ...load, body: JSON.stringify({ passport, request: { ...request, amount: 501 } }) };
  return { ...about, program, load: { ...load, variety: [load, tooMuch] }, finish: null };
}

describe('a contest', () => {
  beforeAll(() => findDebianProgram('wrk'));

  it('fails where a peer answers BLOCK to some requests', async () => {
    await expect(contestOf(peerThatBlocks)).rejects.toThrow(/of \d+ requests to .* failed$/);
  });

  it('fails where the sidecar answers BLOCK to some requests', async () => {
    await expect(contestOf(sidecarThatBlocks)).rejects.toThrow(
      /^a server: \d+ of \d+ decisions were no PERMIT$/,
    );
  });
});
