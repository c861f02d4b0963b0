import { join } from 'node:path';
import { must } from '../../shared/errors/assert.ts';
import { startupLimits } from '../../sidecar/startup/limits.ts';
import { contest } from '../harness/contest.ts';
import { mustPermit } from '../harness/contestant.ts';
import type { Installation } from '../harness/installation.ts';
import { issuePassports } from '../harness/passports.ts';
import type { Sent } from '../harness/requests.ts';
import type { BenchOptions } from '../harness/row.ts';
import type { Size } from '../harness/size.ts';
import type { Table } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';
import { allShipped, benchGate, headersOf } from '../harness/warm-load.ts';
import type { Load } from '../harness/wrk.ts';
import { haproxyMissing, hasHaproxy, startHaproxy } from '../peers/haproxy.ts';

/**
 * Asked about in turn: a passport that comes again has been forgotten in between. In a brief run none of them
 * comes again.
 */
export const passportsOf = (size: Size): number =>
  size === 'brief' ? 3_000 : Math.ceil(startupLimits.verifiedPassportsMax * 1.1);

/** P5: decisions about unknown passports. */
export const cold = (options: BenchOptions): Promise<Table> =>
  contest(
    options,
    {
      row: 'cold',
      title: 'Decisions about passports never seen, on one core',
      secondsEach: 2,
      notes: [
        `${passportsOf(options.size).toLocaleString('en-US')} passports in turn, and room for ${startupLimits.verifiedPassportsMax.toLocaleString('en-US')} in the memory of the sidecar: each is unknown when it comes again, which the row verifies. Each has its own chain of records.`,
      ],
    },
    async (scene) => {
      const installation = await scene.installed({ isOwn: true });
      const passports = passportsOf(scene.size);
      scene.say(`issuing ${passports.toLocaleString('en-US')} passports`);
      const scriptPath = join(scene.folder, 'ours.lua');
      const { load, variety, finish } = await coldLoad(installation, scriptPath, passports);
      const answer = await mustPermit({ name: 'the sidecar', load });
      const ours = {
        name: 'agent-trust sidecar',
        program: installation.sidecar,
        load,
        finish,
        does: 'caller key and scope, EdDSA signature and claims of the passport, revocation, permission, domain, limit, hash of the request, a record before the answer, records shipped',
        doesNot: 'rate and daily limits',
        target: null,
      };
      if (scene.size === 'brief') return { contenders: [ours] };
      if (!hasHaproxy())
        return { contenders: [ours], skipped: [{ side: 'HAProxy', reason: haproxyMissing }] };
      const { origin, withToken, ...haproxy } = await startHaproxy({
        folder: scene.folder,
        answer: answer.body,
      });
      scene.atEnd(() => haproxy.program.stop());
      const others = variety.map(withToken);
      const theirs = {
        ...haproxy,
        name: 'HAProxy, ES256 and stick table',
        load: {
          ...must(others[0], 'there are passports'),
          variety: others,
          scriptPath: join(scene.folder, 'haproxy.lua'),
        },
        target: wantedOf('P5'),
      };
      return { contenders: [ours, theirs] };
    },
  );

interface ColdLoad {
  readonly load: Load;
  readonly variety: readonly Sent[];
  readonly finish: () => Promise<void>;
}

/** Requests about more passports than a sidecar remembers, in turn; `finish` throws on cache hits. */
export async function coldLoad(
  installation: Installation,
  scriptPath: string,
  passports = passportsOf('full'),
): Promise<ColdLoad> {
  const tokens = await issuePassports(installation, passports);
  const { gateId, request } = await benchGate(installation);
  return coldLoadOf(installation, { gateId, request, tokens, scriptPath });
}

/** The same about these tokens. */
export function coldLoadOf(
  installation: Installation,
  of: {
    readonly gateId: string;
    readonly request: object;
    readonly tokens: readonly string[];
    readonly scriptPath: string;
  },
): ColdLoad {
  const { gateId, request, tokens, scriptPath } = of;
  const url = `${installation.sidecarOrigin}/v1/gates/${gateId}/check`;
  const headers = headersOf(installation);
  const variety: readonly Sent[] = tokens.map((passport) => ({
    ...{ url, headers, body: JSON.stringify({ passport, request }) },
  }));
  const first = must(variety[0], 'there are passports');
  const finish = async () => {
    await mustBeCold(installation);
    await allShipped(installation, [gateId]);
  };
  return { load: { ...first, variety, scriptPath }, variety, finish };
}

/** Room for the answers of `mustPermit` and for requests sent twice. */
const hitsMaxShare = 0.01;

async function mustBeCold({ sidecarMetric }: Parameters<typeof allShipped>[0]): Promise<void> {
  const hits = await sidecarMetric('agent_trust_sidecar_verify_cache_hits_total');
  const misses = await sidecarMetric('agent_trust_sidecar_verify_cache_misses_total');
  if (hits > misses * hitsMaxShare + 10) throw new Error(`${hits} of ${hits + misses} passports were known`);
}
