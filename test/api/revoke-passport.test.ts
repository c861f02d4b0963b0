import { describe, expect, it } from 'vitest';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { dayMs, hourMs } from '../../shared/model/time.ts';
import { expectWithin, timed } from '../support/base/time-promise.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

const act = (id: string, what: string, body?: unknown) =>
  api.call({ method: 'POST', url: `/v1/passports/${id}/${what}`, body });
const globalChanges = () => api.changes('global');
const standing = (id: string, is: string, expires_at: string | null) => ({
  kind: 'passport.standing',
  body: {
    passport: idDigest(id),
    standing: is,
    expired_by_day: expires_at === null ? null : Math.ceil(Date.parse(expires_at) / dayMs),
  },
});

describe('POST /passports/:id/revoke', () => {
  it('200: revokes, and notifies every sidecar', async () => {
    const { id, expires_at } = await api.issuePassport();
    const before = (await globalChanges()).length;
    const { status, body } = await act(id, 'revoke', { reason: 'key leaked' });
    expect(status).toBe(200);
    expect(body).toEqual({
      ...{ passport_id: id, id, status: 'revoked', revoked_at: expect.stringMatching(/\.\d{3}Z$/) },
      revoked_by: { type: 'api_key', id: expect.stringMatching(/^key_/), client_id: null },
      reason: 'key leaked',
      propagation: { revision: before + 1, sidecars: 0, acknowledged: 0, silent: [] },
    });
    expect((await globalChanges()).slice(before)).toEqual([standing(id, 'revoked', expires_at)]);
    expect((await api.call({ url: `/v1/passports/${id}` })).body).toMatchObject({
      ...{ status: 'revoked', revoked_at: body.revoked_at, revocation_reason: 'key leaked' },
    });
  });

  it('answers the first revocation again, and sends no second change', async () => {
    const { id } = await api.issuePassport();
    const first = await act(id, 'revoke', { reason: 'first' });
    const changes = (await globalChanges()).length;
    api.advance(hourMs);
    const second = await act(id, 'revoke', { reason: 'second' });
    expect(second.status).toBe(200);
    expect({ ...second.body, propagation: null }).toEqual({ ...first.body, propagation: null });
    expect(second.body.propagation.revision).toBeGreaterThanOrEqual(first.body.propagation.revision);
    expect(await globalChanges()).toHaveLength(changes);
  });

  it('revokes once where many ask at once', async () => {
    const { id } = await api.issuePassport();
    const before = (await globalChanges()).length;
    const all = await Promise.all(['a', 'b', 'c', 'd'].map((reason) => act(id, 'revoke', { reason })));
    expect(new Set(all.map((reply) => `${reply.body.reason} ${reply.body.revoked_at}`)).size).toBe(1);
    expect((await globalChanges()).length).toBe(before + 1);
  });

  it('revokes an expired and a suspended one as well', async () => {
    const expired = await api.issuePassport({ expires_in: '1h' });
    const suspended = await api.issuePassport();
    await act(suspended.id, 'suspend');
    api.advance(hourMs);
    const byDefault = { status: 'revoked', reason: 'unspecified' };
    expect((await act(expired.id, 'revoke')).body).toMatchObject(byDefault);
    expect((await act(suspended.id, 'revoke')).body.status).toBe('revoked');
  });

  it('waits for the sidecars only while there are some', async () => {
    await expectWithin(2_000, 'it is revoked', async () => {
      const { id } = await api.issuePassport();
      const { result: reply, ...time } = await timed(() => act(id, 'revoke?wait_ms=5000'));
      expect(reply.body.propagation).toMatchObject({ sidecars: 0, acknowledged: 0 });
      return time;
    });
  });

  it.each([
    [{ reason: '' }, 'reason'],
    [{ reason: 5 }, 'reason'],
    [{ reason: 'x'.repeat(501) }, 'reason'],
    [{ why: 'x' }, 'why'],
  ])('400: refuses %j, naming %s, and revokes nothing', async (body, param) => {
    const { id } = await api.issuePassport();
    expectError(await act(id, 'revoke', body), 'invalid_request', param);
    expect((await api.call({ url: `/v1/passports/${id}` })).body.status).toBe('active');
  });

  it.each(['5001', 'soon'])('400: refuses to wait %s ms', async (waitMs) => {
    const { id } = await api.issuePassport();
    const url = `/v1/passports/${id}/revoke?wait_ms=${waitMs}`;
    expectError(await api.call({ method: 'POST', url }), 'invalid_request', 'wait_ms');
  });
});

describe('POST /passports/:id/suspend and reactivate', () => {
  it('200: suspends and reactivates, and notifies every sidecar', async () => {
    const { id, expires_at } = await api.issuePassport();
    const before = (await globalChanges()).length;
    const suspended = await act(id, 'suspend');
    expect(suspended.status).toBe(200);
    expect(suspended.body).toMatchObject({ passport_id: id, status: 'suspended' });
    expect((await api.call({ url: `/v1/passports/${id}` })).body).toEqual(suspended.body);
    expect((await act(id, 'reactivate', {})).body).toMatchObject({ passport_id: id, status: 'active' });
    expect((await globalChanges()).slice(before)).toEqual([
      standing(id, 'suspended', expires_at),
      standing(id, 'active', expires_at),
    ]);
  });

  it('409: from any other state, without a change in the feed', async () => {
    const active = await api.issuePassport();
    const suspended = await api.issuePassport();
    const revoked = await api.issuePassport();
    const expired = await api.issuePassport({ expires_in: '1h' });
    const expiredSuspended = await api.issuePassport({ expires_in: '1h' });
    await act(suspended.id, 'suspend');
    await act(expiredSuspended.id, 'suspend');
    await act(revoked.id, 'revoke');
    api.advance(hourMs);
    const before = (await globalChanges()).length;
    for (const { id } of [suspended, revoked, expired, expiredSuspended]) {
      expectError(await act(id, 'suspend'), 'passport_state_conflict');
    }
    for (const { id } of [active, revoked, expired, expiredSuspended]) {
      expectError(await act(id, 'reactivate'), 'passport_state_conflict');
    }
    expect(await globalChanges()).toHaveLength(before);
  });
});
