import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Contender, contest, type Scene } from '../../bench/harness/contest.ts';
import { measuredCore } from '../../bench/harness/cores.ts';
import { mustPermitInTime, offer } from '../../bench/harness/open-load.ts';
import { type Program, start } from '../../bench/harness/programs.ts';
import type { Sent } from '../../bench/harness/requests.ts';
import { warmLoad } from '../../bench/harness/warm-load.ts';
import { must } from '../../shared/errors/assert.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { findDebianProgram } from '../support/run/debian-program.ts';

const contestOf = (prepare: (scene: Scene) => Promise<Contender>) =>
  contest(
    { size: 'quick', database: 'embedded', built: 'dist', say: () => undefined },
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

async function startBlocker(): Promise<{ readonly program: Program; readonly sent: Sent }> {
  const program = start({ core: measuredCore, command: [process.execPath, '-e', blocker] });
  const [, port] = await program.find(/^port (\d+)$/m);
  return { program, sent: { url: `http://127.0.0.1:${port}/`, headers: {}, body: '{}' } };
}

async function peerThatBlocks({ folder, atEnd }: Scene): Promise<Contender> {
  const { program, sent } = await startBlocker();
  atEnd(() => program.stop());
  const load = { ...sent, scriptPath: join(folder, 'blocker.lua'), permitsEach: 1 };
  return { ...about, program, load, finish: null };
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

describe('a load at a fixed rate', () => {
  const folder = temporaryFolder();
  afterAll(() => folder.remove());
  let program: Program | null = null;
  afterEach(() => program?.stop());

  it('fails where the answers are BLOCKs', async () => {
    const { sent, ...blocking } = await startBlocker();
    program = blocking.program;
    const streams = [{ requests: [sent], perSecond: 200 }];
    const [offered] = await offer(streams, { folder: folder.path, seconds: 1, server: program });
    const { due, answered, permittedInTime, times } = must(offered, 'there is one stream');
    expect({ due, answered }).toEqual({ due: 200, answered: 200 });
    // Two are permitted; each that is not counted was answered after a second.
    expect(permittedInTime).toBeLessThanOrEqual(2);
    expect(permittedInTime + times.filter((ms) => ms > 1_000).length).toBeGreaterThanOrEqual(2);
    expect(() => mustPermitInTime({ due, answered, permittedInTime })).toThrow(
      `${200 - permittedInTime} of 200 requests got no PERMIT within a second`,
    );
  });

  it('accepts one late answer in a thousand', () => {
    const permitting = (permittedInTime: number) => () =>
      mustPermitInTime({ due: 2_000, answered: 2_000, permittedInTime });
    expect(permitting(1_998)).not.toThrow();
    expect(permitting(1_997)).toThrow('3 of 2000 requests got no PERMIT within a second');
  });

  it('fails where a request has no answer', () => {
    expect(() => mustPermitInTime({ due: 2_000, answered: 1_999, permittedInTime: 1_999 })).toThrow(
      '1999 of 2000 requests were answered',
    );
  });
});
