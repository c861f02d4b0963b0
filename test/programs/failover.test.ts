import { expect, it } from 'vitest';
import { failover } from '../failover/failover.ts';
import { bundledPrograms } from '../support/programs/programs.ts';

/** A short form of `npm run failover`: a minute, with one server that dies and one switchover. */
it('loses, doubles and overdraws nothing when the primary dies and is switched over under load', async () => {
  const said: string[] = [];
  const { violations, pauses } = await failover({
    programs: await bundledPrograms(),
    seed: 36,
    failovers: 2,
    kill: 'server',
    clients: 4,
    size: 60,
    say: (line) => said.push(line),
  });
  expect(violations, said.join('\n')).toEqual([]);
  expect(pauses.map(({ kind }) => kind)).toEqual(['server', 'switchover']);
}, 300_000);
