import { describe, expect, it } from 'vitest';
import { decisionsLimits } from '../../control-plane/decisions/limits.ts';
import { claimProofs, trimProofs } from '../../control-plane/decisions/used-proof-store.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi();

const nowMs = Date.UTC(2026, 10, 27) as UnixMillis;
const use = (name: string, claim: string) => ({ proof: idDigest(name), claim });

describe('the ledger of proofs', () => {
  it('gives each proof to one claim, for good, and knows that claim again', async () => {
    const { sql } = api.deps;
    expect(await claimProofs(sql, [use('a', '1'), use('b', '1'), use('a', '2')], nowMs)).toEqual([
      true,
      true,
      false,
    ]);
    expect(await claimProofs(sql, [use('a', '1'), use('b', '2')], nowMs)).toEqual([true, false]);
    expect(await claimProofs(sql, [use('a', '2'), use('b', '1')], nowMs)).toEqual([false, true]);
  });

  it('gives it to one of many who ask at once, in whatever order', async () => {
    const names = Array.from({ length: 20 }, (_, i) => `race ${i}`);
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, caller) => {
        const turned = caller % 2 === 0 ? names : names.toReversed();
        return claimProofs(
          api.deps.sql,
          turned.map((name) => use(name, String(caller))),
          nowMs,
        ).then((first) => turned.filter((_name, place) => first[place]));
      }),
    );
    expect(answers.flat().sort()).toEqual(names.toSorted());
  });

  it('forgets what no clock accepts any more, and nothing else', async () => {
    const { sql } = api.deps;
    const { keptMs } = decisionsLimits.proofs;
    await claimProofs(sql, [use('old 1', '1'), use('old 2', '1'), use('old 3', '1')], nowMs);
    const laterMs = (nowMs + keptMs + 1) as UnixMillis;
    await claimProofs(sql, [use('new', '1')], laterMs);
    await trimProofs(sql, laterMs, 2);
    expect(await claimProofs(sql, [use('old 1', '2'), use('new', '2')], laterMs)).toEqual([true, false]);
  });
});

describe('POST /v1/sync/proofs', () => {
  const ask = (body: unknown, key?: string) =>
    api.call({ url: '/v1/sync/proofs', body, ...(key && { key }) });
  const side = () => api.deps.random.newId('side', nowMs);
  const claim = (name: string, mark = 'A') => ({ proof: idDigest(name), claim: mark.repeat(22) });

  it('answers in order, and takes the same claim of another sidecar or account for another one', async () => {
    const body = { sidecar_id: side(), connection_id: 'c', proofs: [claim('x'), claim('y')] };
    expect((await ask(body)).body).toEqual({ first: [true, true] });
    expect((await ask(body)).body).toEqual({ first: [true, true] });
    expect((await ask({ ...body, sidecar_id: side() })).body).toEqual({ first: [false, false] });
    const { key } = await api.createAccount();
    expect((await ask(body, key)).body).toEqual({ first: [false, false] });
  });

  it.each([
    ['none', 'proofs', []],
    [
      'too many',
      'proofs',
      Array.from({ length: limits.proofClaimsPerCallMax + 1 }, (_, i) => claim(`n${i}`)),
    ],
    ['a digest of another length', 'proofs.0.proof', [{ ...claim('x'), proof: 'AAAA' }]],
    ['a claim of another length', 'proofs.0.claim', [{ ...claim('x'), claim: 'A' }]],
    ['another member', 'proofs.0.until', [{ ...claim('x'), until: 1 }]],
  ])('400: %s', async (_name, param, proofs) => {
    expectError(await ask({ sidecar_id: side(), connection_id: 'c', proofs }), 'invalid_request', param);
  });
});
