import { join } from 'node:path';
import { must } from '../../shared/errors/assert.ts';
import { type Contest, contest, type Scene } from '../harness/contest.ts';
import type { Contestant } from '../harness/contestant.ts';
import { foreignTokens } from '../harness/foreign-tokens.ts';
import type { BenchOptions } from '../harness/row.ts';
import type { Table } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';
import { allShipped, benchGate, checkLoad, request } from '../harness/warm-load.ts';
import { haproxyMissing, hasHaproxy, startHaproxy } from '../peers/haproxy.ts';
import { coldLoadOf, passportsOf } from './cold.ts';

/** P27 and P28: decisions about passports of issuers of others. */
export const federated = async (options: BenchOptions): Promise<readonly Table[]> => [
  await contest(
    options,
    {
      row: 'federated',
      title: 'Warm decisions about a passport of another issuer, on one core',
      rounds: 9,
      notes: ['One sidecar, one gate and one request; the tokens differ.'],
    },
    warmContest,
  ),
  await contest(
    options,
    {
      row: 'federated-cold',
      title: 'Decisions about tokens of other issuers never seen, on one core',
      notes: [
        `${passportsOf(options.size).toLocaleString('en-US')} tokens of one subject in turn, more than the sidecar remembers: each is unknown when it comes again, which the row verifies.`,
      ],
    },
    coldContest,
  ),
];

const does =
  'caller key and scope, the passport from its cache with all times and revocations checked again, permission, domain, limit, hash of the request, a record before the answer, records shipped';
const doesNot = 'rate and daily limits';

async function warmContest({ installed, folder }: Scene): Promise<Contest> {
  const installation = await installed();
  const tokens = await foreignTokens(installation, 'ES256');
  const { gateId, passport } = await benchGate(installation);
  const side = (name: string, token: string, target: Contestant['target']): Contestant => ({
    ...{ name, program: installation.sidecar, does, doesNot, target },
    load: checkLoad(installation, {
      gateId,
      body: { passport: token, request },
      scriptPath: join(folder, `${name}.lua`),
    }),
    finish: () => allShipped(installation, [gateId]),
  });
  return {
    contenders: [
      side('a passport of another issuer', tokens.sign('bench'), null),
      side('a passport of our own', passport, wantedOf('P27')),
    ],
  };
}

async function coldContest({ installed, folder, size, say, atEnd }: Scene): Promise<Contest> {
  const installation = await installed({ isOwn: true });
  const { gateId } = await benchGate(installation);
  const passports = passportsOf(size);
  const sideOf = async (algorithm: 'ES256' | 'RS256') => {
    const tokens = await foreignTokens(installation, algorithm);
    say(`signing ${passports.toLocaleString('en-US')} tokens by ${algorithm}`);
    const signed = Array.from({ length: passports }, () => tokens.sign('bench'));
    const scriptPath = join(folder, `${algorithm}.lua`);
    const cold = coldLoadOf(installation, { gateId, request, tokens: signed, scriptPath });
    const side: Contestant = {
      ...{ name: `tokens by ${algorithm}`, program: installation.sidecar, load: cold.load, target: null },
      finish: cold.finish,
      does: `caller key and scope, ${algorithm} signature and claims of the token, revocation, permission, domain, limit, hash of the request, a record before the answer, records shipped`,
      doesNot,
    };
    return { side, variety: cold.variety };
  };
  const [byCurve, byRsa] = [await sideOf('ES256'), await sideOf('RS256')];
  const ours = [byCurve.side, byRsa.side];
  if (size === 'brief') return { contenders: ours };
  if (!hasHaproxy()) return { contenders: ours, skipped: [{ side: 'HAProxy', reason: haproxyMissing }] };
  // As long as an answer of ours.
  const answer = JSON.stringify({ decision: 'PERMIT', padding: 'x'.repeat(600) });
  const { origin, withToken, ...haproxy } = await startHaproxy({ folder, answer });
  atEnd(() => haproxy.program.stop());
  const others = byCurve.variety.map(withToken);
  const theirs = {
    ...haproxy,
    name: 'HAProxy, ES256 and stick table',
    load: {
      ...must(others[0], 'there are tokens'),
      variety: others,
      scriptPath: join(folder, 'haproxy.lua'),
    },
    target: wantedOf('P28'),
  };
  return { contenders: [...ours, theirs] };
}
