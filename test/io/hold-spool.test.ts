import { existsSync, mkdirSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { holdSpool } from '../../sidecar/attest/hold-spool.ts';
import type { Spool } from '../../sidecar/attest/spool.ts';
import { nodeFiles, type SpoolFiles } from '../../sidecar/attest/spool-files.ts';
import { useFolder } from '../support/base/use.ts';
import { openTestSpool, random } from '../support/data/spooled.ts';

const folder = useFolder();

const sockets = (): string[] => readdirSync(folder.path).filter((name) => name.endsWith('.sock'));

const listenAt = (name: string): Promise<Server> =>
  new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once('error', reject).listen(join(folder.path, name), () => resolve(server));
  });

/** As a killed process leaves it: the name stays, and nobody listens. */
async function leaveDead(name: string): Promise<void> {
  const server = await listenAt(`${name}.listening`);
  renameSync(join(folder.path, `${name}.listening`), join(folder.path, name));
  await new Promise((resolve) => server.close(resolve));
}

describe('a hold on a spool', () => {
  it('is of one alone at most, however close two of them begin', async () => {
    for (let turns = 0; turns < 40; turns++) {
      const one = holdSpool(folder.path, random);
      for (let turn = 0; turn < turns; turn++) await nextTurn();
      const holds = await Promise.all([one, holdSpool(folder.path, random)]);
      expect(holds.filter(({ isSole }) => isSole).length, `${turns} turns apart`).toBeLessThan(2);
      for (const hold of holds) await hold.release();
      expect(sockets()).toEqual([]);
    }
  });

  it('is sole again once the other is released, or was killed', async () => {
    const first = await holdSpool(folder.path, random);
    expect(first.isSole).toBe(true);
    const second = await holdSpool(folder.path, random);
    expect(second.isSole).toBe(false);
    await first.release();
    // The second has taken nothing for certain, but lives.
    const third = await holdSpool(folder.path, random);
    expect(third.isSole).toBe(false);
    await third.release();
    await second.release();
    await leaveDead(`writer-${'a'.repeat(16)}.sock`);
    const fourth = await holdSpool(folder.path, random);
    expect(fourth.isSole).toBe(true);
    expect(sockets()).toHaveLength(1);
    await fourth.release();
  });

  it('is not sole while the writer of an earlier build lives, which has another name', async () => {
    const earlier = await listenAt('writer.sock');
    const hold = await holdSpool(folder.path, random);
    expect(hold.isSole).toBe(false);
    await hold.release();
    expect(existsSync(join(folder.path, 'writer.sock'))).toBe(true);
    await new Promise((resolve) => earlier.close(resolve));
    await leaveDead('writer.sock');
    const later = await holdSpool(folder.path, random);
    expect(later.isSole).toBe(true);
    expect(existsSync(join(folder.path, 'writer.sock'))).toBe(false);
    await later.release();
  });

  it('is not sole if its own name was removed, because the next start would not see it', async () => {
    // Whoever comes between making the name and listening takes it for a dead one.
    const holding = holdSpool(folder.path, random);
    let own: string | undefined;
    while (own === undefined) {
      await nextTurn();
      [own] = sockets();
    }
    renameSync(join(folder.path, own), join(folder.path, 'gone'));
    const hold = await holding;
    expect(hold.isSole).toBe(false);
    await hold.release();
  });
});

describe('two starts on one spool', () => {
  it('never take the epoch of each other for over and certain, and both start', async () => {
    for (let turns = 0; turns < 40; turns++) {
      const opening: Promise<Spool>[] = [openTestSpool(folder.path)];
      for (let turn = 0; turn < turns; turn++) await nextTurn();
      opening.push(openTestSpool(folder.path));
      const spools = await Promise.all(opening);
      for (const [index, spool] of spools.entries()) {
        const live = spools[1 - index]?.epoch;
        const seen = spool.epochs.find(({ epoch }) => epoch === live);
        expect(seen?.isCertain ?? false, `${turns} turns apart`).toBe(false);
      }
      for (const spool of spools) await spool.close();
      folder.renew();
    }
  });

  it('leave alone what may be of the other: an epoch without an origin, and a segment without a record', async () => {
    const alive = await openTestSpool(folder.path);
    const begun = join(folder.path, `00000009-${'e'.repeat(32)}`);
    const begunSegment = join(folder.path, `00000010-${'f'.repeat(32)}`, '0000000000000001.seg');
    mkdirSync(begun);
    mkdirSync(join(begunSegment, '..'));
    writeFileSync(begunSegment, Buffer.alloc(100));
    const second = await openTestSpool(folder.path);
    expect(existsSync(begun)).toBe(true);
    expect(existsSync(begunSegment)).toBe(true);
    await second.close();
    await alive.close();
    await (await openTestSpool(folder.path)).close();
    expect(existsSync(begun)).toBe(false);
    expect(existsSync(begunSegment)).toBe(false);
  });

  it('pass over a folder that has got a file since it was found empty', async () => {
    const { removeFolder } = nodeFiles;
    mkdirSync(join(folder.path, `00000001-${'e'.repeat(32)}`));
    const files: SpoolFiles = {
      ...nodeFiles,
      removeFolder: (path) => {
        writeFileSync(join(path, 'origin.json'), '{}');
        return removeFolder(path);
      },
    };
    const spool = await openTestSpool(folder.path, { files });
    expect(spool.state).toBe('open');
    await spool.close();
  });
});
