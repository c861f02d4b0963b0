import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ReplayReport } from '../../shared/replay/replay.ts';
import { type Api, startApi } from '../support/api.ts';
import { goToNoon } from '../support/approvals.ts';
import { exportText } from '../support/exports.ts';
import { replayText } from '../support/replay.ts';
import {
  type CutOffRecords,
  recordFrozenWithApproval,
  recordWhileCutOff,
} from '../support/sidecar-records.ts';

// biome-ignore lint/suspicious/noExplicitAny: lines of several kinds
type Line = any;

let api: Api;
let records: CutOffRecords;
let text: string;
beforeAll(async () => {
  api = await startApi();
  goToNoon(api);
  records = await recordWhileCutOff(api);
  text = await exportText(api);
});
afterAll(() => api.close());

/** The report of the export with this record in other words. */
const changed = ({ id }: Line, about: object): ReplayReport =>
  replayText(
    text
      .trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line).id === id ? JSON.stringify({ ...JSON.parse(line), ...about }) : line))
      .join('\n'),
  );

it('a replay gives each decision of a sidecar that was not connected since its start again', () => {
  const unknown = { state_age_ms: null, source: expect.stringMatching(/^side_/) };
  expect(records).toMatchObject({
    permit: { decision: 'PERMIT', ...unknown },
    stale: { decision: 'BLOCK', reason: 'state_stale', ...unknown },
    permitOfRevoked: { decision: 'PERMIT', ...unknown },
  });
  expect(replayText(text)).toMatchObject({
    decisions: {
      PERMIT: { agrees: 2, contradicted: 0, unjudged: 0 },
      BLOCK: { agrees: 1, contradicted: 0, unjudged: 0 },
    },
    contradictions: [],
  });
});

it('and contradicts a PERMIT that it cannot have given', () => {
  const { permitOfRevoked, stale } = records;
  // Its gate takes no state of unknown age, and a known age is held against the revocation.
  const atStrict = { decision: 'PERMIT', reason: null };
  expect(changed(stale, atStrict).contradictions).toMatchObject([
    { id: stale.id, expected: { decision: 'BLOCK', reason: 'state_stale' } },
  ]);
  const expected = { decision: 'BLOCK', reason: 'passport_revoked' };
  for (const about of [{ state_age_ms: 0 }, { source: 'control-plane' }])
    expect(changed(permitOfRevoked, about).contradictions).toMatchObject([
      { id: permitOfRevoked.id, expected },
    ]);
});

it('believes a gate that is stale though its state is young, at any level, and nothing else of it', () => {
  const { permit, stale } = records;
  const young = changed(stale, { state_age_ms: 20 });
  expect([young.contradictions, young.unjudged]).toEqual([[], { state: 1 }]);
  const [passport, level, ...rest] = permit.constraints_evaluated;
  const block = { decision: 'BLOCK', reason: 'state_stale', state_age_ms: 20 };
  const lenient = changed(permit, { ...block, constraints_evaluated: [passport, level, 'freshness'] });
  expect([lenient.contradictions, lenient.unjudged]).toEqual([[], { state: 1 }]);
  for (const checks of [
    [passport, level],
    [passport, level, 'freshness', ...rest],
  ])
    expect(changed(permit, { ...block, constraints_evaluated: checks }).contradictions).toMatchObject([
      { id: permit.id, fault: 'decision' },
    ]);
});

it('believes a frozen wallet before the request was read, as a sidecar is told with an approval', async () => {
  const frozen = await recordFrozenWithApproval(api);
  expect(frozen.constraints_evaluated).toEqual(['passport', 'trust_level', 'issuer', 'permission']);
  const all = replayText(await exportText(api));
  expect([all.contradictions, all.unjudged]).toEqual([[], { standing: 1 }]);
});
