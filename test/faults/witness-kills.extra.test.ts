import { mkdirSync, readdirSync, renameSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { must } from '../../shared/errors/assert.ts';
import { checkpointText, parseSignedCheckpoint } from '../../shared/log/checkpoint.ts';
import { verifiesCosignature } from '../../shared/log/cosignature.ts';
import { entryOf } from '../../shared/log/entry.ts';
import { consistencyRanges, leafHash, type ReadNode, rangeHash, rootHash } from '../../shared/log/merkle.ts';
import {
  encodeBase64,
  parseSignatureLine,
  parseVkey,
  renderNote,
  renderVkey,
  signatureTypes,
  signNote,
} from '../../shared/log/note.ts';
import { grow, readFromTiles } from '../../shared/log/tiles.ts';
import { freePort } from '../support/base/free-port.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { bundledPrograms, type Program, type Programs } from '../support/programs/programs.ts';

const ed25519 = chooseEd25519();
const signer = ed25519.signer(Buffer.alloc(32, 7));
const origin = 'example.com/log';
const policy = `log ${renderVkey(origin, signatureTypes.ed25519, signer.publicKey)}\nquorum none\n`;

/** A log of its own; `salt`: another one with the same key. */
function logOf(size: number, salt = ''): ReadNode {
  const leaves = Array.from({ length: size }, (_, index) =>
    leafHash(entryOf({ chainId: `pass_${salt}`, sequence: index + 1, hash: '' })),
  );
  const { changed } = grow([], 0, leaves);
  return readFromTiles(({ level, number }) =>
    must(changed.find((each) => each.level === level && each.number === number)?.hashes, 'a tile'),
  );
}
const read = logOf(5_000);

function submission(oldSize: number, size: number, node: ReadNode = read): string {
  const text = checkpointText({ origin, size, root: rootHash(size, node) });
  const ranges = oldSize === 0 || oldSize >= size ? [] : consistencyRanges(oldSize, { from: 0, to: size });
  const proof = ranges.map((range) => `${encodeBase64(rangeHash(range, node))}\n`).join('');
  return `old ${oldSize}\n${proof}\n${renderNote({ text, signatures: [signNote(origin, signer, text)] })}`;
}

describe('agent-trust witness', () => {
  const folder = temporaryFolder();
  const state = join(folder.path, 'state');
  let programs: Programs;
  let program: Program;
  let url: string;
  let port: number;

  async function start() {
    program = programs.start(
      [
        ...['witness', '--name', 'w.example/1', '--logs', join(folder.path, 'logs.policy')],
        ...['--data-dir', state, '--port', String(port)],
      ],
      {},
    );
    await program.waitFor(/witness is listening/);
  }
  beforeAll(async () => {
    programs = await bundledPrograms();
    writeFileSync(join(folder.path, 'logs.policy'), policy);
    port = await freePort();
    url = `http://127.0.0.1:${port}`;
    await start();
  });
  afterAll(async () => {
    await program?.stop('SIGKILL');
    folder.remove();
  });

  const add = async (body: string) => {
    const response = await fetch(`${url}/add-checkpoint`, { method: 'POST', body });
    return {
      status: response.status,
      type: response.headers.get('content-type'),
      body: await response.text(),
    };
  };
  const held = async () => Number((await add(submission(4_999, 5_000))).body);
  const vkey = () => {
    const [found = ''] = /w\.example\/1\+[0-9a-f]{8}\+[A-Za-z0-9+/=]+/.exec(program.output()) ?? [];
    return must(parseVkey(ed25519, found), 'the witness shows its vkey');
  };

  it('answers as C2SP tlog-witness says', async () => {
    const first = submission(0, 3);
    expect(await add(submission(1, 3))).toEqual({ status: 409, type: 'text/x.tlog.size', body: '0\n' });
    const cosigned = await add(first);
    expect(cosigned.status).toBe(200);
    const line = must(parseSignatureLine(cosigned.body.trimEnd()), 'a signature line');
    const text = checkpointText({ origin, size: 3, root: rootHash(3, read) });
    expect(verifiesCosignature(vkey(), text, line.signature)).toBe(true);
    expect(await add(first)).toMatchObject({ status: 409, body: '3\n' });
    expect((await add(submission(3, 3))).status).toBe(200);
    expect((await add(submission(3, 3, logOf(3, 'other')))).status).toBe(422);
    expect((await add(submission(3, 9, logOf(9, 'other')))).status).toBe(422);
    expect((await add(submission(9, 5))).status).toBe(400);
    expect((await add(submission(3, 5).replace('old 3', 'old 03'))).status).toBe(400);
    expect((await add('')).status).toBe(400);
    expect((await add(submission(3, 5).replaceAll(origin, 'example.com/other'))).status).toBe(404);
    const unsigned = submission(3, 5).replace(/— .*\n$/, '— example.com/log AAAAAAAAAAAA\n');
    expect((await add(unsigned)).status).toBe(403);
    const forged = submission(3, 5).replace(/\n5\n/, '\n6\n');
    expect((await add(forged)).status).toBe(403);
    const monitor = await (await fetch(`${url}/${sha256Hex(origin)}/checkpoint`)).text();
    const { checkpoint, note } = must(parseSignedCheckpoint(monitor), 'a checkpoint');
    expect(checkpoint.size).toBe(3);
    expect(note.signatures.map(({ name }) => name)).toEqual([origin, 'w.example/1']);
    expect((await fetch(`${url}/${sha256Hex('other')}/checkpoint`)).status).toBe(404);
    expect((await add(submission(3, 5))).status).toBe(200);
  });

  it('never takes back what it cosigned, killed at any moment', async () => {
    let size = await held();
    for (let kills = 0; kills < 3; kills++) {
      const killed = new Promise<void>((resolve) => {
        setTimeout(() => void program.stop('SIGKILL').then(() => resolve()), Math.random() * 60);
      });
      let answered = size;
      while (program.isRunning && answered < 4_900) {
        const reply = await add(submission(answered, answered + 1)).catch(() => null);
        if (reply === null) break;
        expect(reply.status).toBe(200);
        answered += 1;
      }
      await killed;
      await start();
      const kept = await held();
      expect(kept === answered || kept === answered + 1).toBe(true);
      size = kept;
      if (size > 4_000) break;
    }
  });

  it('leaves nothing of what a kill interrupted', async () => {
    await program.stop('SIGKILL');
    const unfinished = join(state, 'witness.json.0123456789ab.tmp');
    writeFileSync(unfinished, '{"format":"agent-trust.witness.v1"');
    await start();
    expect(readdirSync(state)).toContain('witness.json');
    expect(readdirSync(state).filter((name) => name.endsWith('.tmp'))).toEqual([]);
  });

  it('cosigns nothing that the disk does not keep, and goes on when it does', async () => {
    const size = await held();
    // A folder in its place cannot be replaced.
    const file = join(state, 'witness.json');
    renameSync(file, `${file}.aside`);
    mkdirSync(file);
    expect((await add(submission(size, size + 1))).status).toBe(503);
    // What is kept already may be cosigned again.
    expect((await add(submission(size, size))).status).toBe(200);
    expect(await held()).toBe(size);
    rmdirSync(file);
    renameSync(`${file}.aside`, file);
    expect((await add(submission(size, size + 1))).status).toBe(200);
  });

  it('is one process for each state, and begins none over a broken one', async () => {
    const second = programs.start(
      ['witness', '--logs', join(folder.path, 'logs.policy'), '--data-dir', state, '--port', '0'],
      {},
    );
    expect(await second.exited).toBe(1);
    expect(second.output()).toContain('in use by another witness process');
    const other = join(folder.path, 'other');
    mkdirSync(other, { mode: 0o700 });
    const args = ['witness', '--logs', join(folder.path, 'logs.policy'), '--data-dir', other, '--port', '0'];
    const nameless = programs.start(args, {});
    expect(await nameless.exited).toBe(1);
    expect(nameless.output()).toContain('begin the witness with --name');
    writeFileSync(join(other, 'witness.json'), '{"format":"agent-trust.witness.v1"');
    const broken = programs.start(args, {});
    expect(await broken.exited).toBe(1);
    expect(broken.output()).toContain('is not the state of a witness');
  });
});
