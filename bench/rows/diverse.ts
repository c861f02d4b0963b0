import { join } from 'node:path';
import { must } from '../../shared/errors/assert.ts';
import { contest } from '../harness/contest.ts';
import { mustPermit } from '../harness/contestant.ts';
import { measuredCore } from '../harness/cores.ts';
import type { Installation } from '../harness/installation.ts';
import { issuePassports } from '../harness/passports.ts';
import { peer, start } from '../harness/programs.ts';
import { diverseRequest, type Sent } from '../harness/requests.ts';
import type { BenchOptions } from '../harness/row.ts';
import type { Table } from '../harness/table.ts';
import { targets } from '../harness/targets.ts';
import { allShipped, benchGate, headersOf } from '../harness/warm-load.ts';
import type { Load } from '../harness/wrk.ts';

const passports = 1_000;
const gates = 50;
const requests = 20_000;

/** Passports and gates of an installation, and requests that make them all meet. */
export async function diverseTraffic(installation: Installation): Promise<{
  readonly gateIds: readonly string[];
  readonly requestsTo: (origin: string) => readonly Sent[];
}> {
  const gateIds: string[] = [];
  for (let i = 0; i < gates; i += 1) gateIds.push((await benchGate(installation, `bench-${i}`)).gateId);
  const tokens = await issuePassports(installation, passports);
  const headers = headersOf(installation);
  const sentTo = (origin: string, gate: string, body: object): Sent => ({
    ...{ url: `${origin}/v1/gates/${gate}/check`, headers, body: JSON.stringify(body) },
  });
  // 1,000 passports and 50 gates in turn would meet in pairs: a stride of 7 makes them all meet.
  const requestsTo = (origin: string) =>
    Array.from({ length: requests }, (_, i) =>
      sentTo(origin, must(gateIds[(i * 7 + Math.floor(i / passports)) % gates], 'a gate'), {
        passport: must(tokens[i % passports], 'a passport'),
        request: diverseRequest(i),
      }),
    );
  return { gateIds, requestsTo };
}

/** Row `warm` with the traffic of many agents, beside one of their requests again and again. */
export const diverse = (options: BenchOptions): Promise<Table> =>
  contest(
    options,
    {
      row: 'diverse',
      title: 'Warm decisions about diverse traffic, on one core',
      notes: [
        `Diverse: ${requests.toLocaleString('en-US')} requests in turn, of ${passports.toLocaleString('en-US')} passports at ${gates} gates, with bodies of 200 shapes, some of them with characters beyond ASCII. The bare server gets the same bytes.`,
        'The one request is the one of them with the median length, so that what differs is their variety and not their size.',
      ],
    },
    async (scene) => {
      const installation = await scene.installed();
      const { gateIds, requestsTo } = await diverseTraffic(installation);
      const load = (name: string, first: Sent, variety?: readonly Sent[]): Load => ({
        ...first,
        scriptPath: join(scene.folder, `${name}.lua`),
        ...(variety !== undefined && { variety }),
      });
      const many = requestsTo(installation.sidecarOrigin);
      const byLength = many.toSorted((a, b) => a.body.length - b.body.length);
      const one = load('one', must(byLength[byLength.length / 2], 'a request of the middle'));
      const answer = await mustPermit({ name: 'the sidecar', load: one });
      const bare = start({
        core: measuredCore,
        command: [...peer('bare-uws'), answer.body, answer.requestId],
      });
      scene.atEnd(() => bare.stop());
      const [, port] = await bare.find(/^port (\d+)$/m);
      const sameToBare = requestsTo(`http://127.0.0.1:${port}`);
      const finish = () => allShipped(installation, gateIds);
      return {
        contenders: [
          {
            ...{ name: 'diverse traffic', program: installation.sidecar, finish, target: null },
            load: load('many', must(many[0], 'a request'), many),
            ...{ does: 'as row `warm`', doesNot: '' },
          },
          {
            ...{ name: 'bare uWebSockets.js, diverse', program: bare, finish: null },
            load: load('bare', must(sameToBare[0], 'a request'), sameToBare),
            ...{ does: 'as row `warm`', doesNot: 'as row `warm`' },
            target: { name: 'P2 with diverse traffic', wanted: targets.P2.wanted },
          },
          {
            ...{ name: 'one of them again and again', program: installation.sidecar, finish, load: one },
            ...{ does: 'as row `warm`', doesNot: '' },
            target: { name: 'no cliff', wanted: 0.8 },
          },
        ],
      };
    },
  );
