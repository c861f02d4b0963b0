import { rmSync } from 'node:fs';
import { expect, it } from 'vitest';
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
