import { rmSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { nodeFiles, type SpoolFiles } from '../../sidecar/attest/spool-files.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { appendTurn, openTestSpool, readOlderEpochs } from '../support/data/spooled.ts';
import { spooledRecord } from '../support/data/spooled-record.ts';

/** Of a sidecar that runs: test/e2e/spool-ground.test.ts. */
it('a spool whose folder is removed takes nothing more, keeps what was answered, and goes on in a new one', async () => {
  const folder = temporaryFolder();
  const spool = await openTestSpool(`${folder.path}/spool`);
  expect(await appendTurn(spool, [spooledRecord(), spooledRecord()])).toEqual(['written', 'written']);
  const [lost] = spool.epochs;
  rmSync(spool.directory, { recursive: true });
  // Whoever comes before that is noticed is told that nothing was written.
  const early = spool.isFull ? ['failed'] : await appendTurn(spool, [spooledRecord()]);
  expect(early).toEqual(['failed']);
  expect([spool.state, spool.isFull]).toEqual(['adrift', true]);
  // As long as its records are open, they are shipped from the files that are.
  expect(spool.epochs).toEqual([lost]);
  if (lost !== undefined) await spool.dropEpoch(lost);
  await until(() => !spool.isFull, { what: 'a new folder' });
  const record = spooledRecord();
  expect(await appendTurn(spool, [record])).toEqual(['written']);
  await spool.close();
  expect((await readOlderEpochs(spool.directory)).map(({ items }) => items)).toEqual([[record]]);
  folder.remove();
});

it('a spool that is closed while it gets a new folder stays closed', async () => {
  const folder = temporaryFolder();
  let isLost = false;
  let isMade = false;
  let mayClose = false;
  const files: SpoolFiles = {
    ...nodeFiles,
    // The last step of a new folder.
    syncFolder: async (path) => {
      await nodeFiles.syncFolder(path);
      isMade = isLost && path === folder.path;
    },
    // Before the new epoch begins the files of the lost one are closed.
    close: async (file) => {
      await until(() => mayClose, { what: 'the spool is closed' });
      await nodeFiles.close(file);
    },
  };
  const spool = await openTestSpool(`${folder.path}/spool`, { files });
  await appendTurn(spool, [spooledRecord()]);
  const [lost] = spool.epochs;
  rmSync(spool.directory, { recursive: true });
  isLost = true;
  await until(() => spool.state === 'adrift', { what: 'it is noticed' });
  if (lost !== undefined) await spool.dropEpoch(lost);
  await until(() => isMade, { what: 'a new folder' });
  await nextTurn();
  const closed = spool.close();
  mayClose = true;
  await closed;
  await nextTurn();
  expect([spool.state, spool.epochs]).toEqual(['closed', []]);
  folder.remove();
});
