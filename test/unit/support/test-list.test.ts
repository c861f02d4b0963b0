import { describe, expect, it } from 'vitest';
import { type Costs, countCost, takeCosts } from '../../support/base/costs.ts';
import { until } from '../../support/base/until.ts';
import { growthOf, readTestList } from '../../support/run/test-list.ts';

const costs = (change: Partial<Costs>): Costs => ({
  services: 0,
  databases: 0,
  processes: 0,
  requests: 0,
  waits: 0,
  ...change,
});
const files = (entries: Readonly<Record<string, Partial<Costs>>>) =>
  new Map(Object.entries(entries).map(([path, change]) => [path, costs(change)]));

describe('the costs of the tests of a lane', () => {
  const listed = files({ a: { requests: 100 }, b: { requests: 100, processes: 10 } });

  it('may grow by a tenth, in whichever file', () => {
    expect(growthOf(files({ a: { requests: 20 }, b: { requests: 200, processes: 13 } }), listed)).toEqual([]);
  });

  it('may not grow by more: the files that grew most are named', () => {
    const ran = files({
      a: { requests: 110 },
      b: { requests: 90, processes: 10 },
      new: { requests: 25, processes: 5 },
    });
    expect(growthOf(ran, listed)).toEqual([
      { cost: 'processes', listed: 10, now: 15, files: ['new (+5)'] },
      { cost: 'requests', listed: 200, now: 225, files: ['new (+25)', 'a (+10)'] },
    ]);
  });

  it('are counted from file to file, and a look once however often it is repeated', async () => {
    const before = takeCosts();
    countCost('requests');
    countCost('requests');
    expect(takeCosts()).toEqual(costs({ requests: 2 }));
    expect(takeCosts()).toEqual(costs({}));
    let looks = 0;
    const look = async () => {
      await Promise.resolve();
      countCost('requests');
      looks += 1;
      return looks === 3;
    };
    await until(look, { what: 'the third look' });
    expect(takeCosts()).toEqual(costs({ requests: 1, waits: 1 }));
    for (const [name, count] of Object.entries(before)) expect(count, name).toBeGreaterThanOrEqual(0);
  });

  it('are listed for files of each lane', () => {
    const paths = [...readTestList().keys()];
    expect(paths.length).toBeGreaterThan(200);
    expect(paths.filter((path) => !/^test\/.+\.test\.ts$/.test(path))).toEqual([]);
  });
});
