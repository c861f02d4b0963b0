import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, it } from 'vitest';
import { updateAccount } from '../../../control-plane/accounts/update-account.ts';
import { updateIssuer } from '../../../control-plane/issuers/update-issuer.ts';
import { revokePassport } from '../../../control-plane/passports/revoke-passport.ts';
import { suspendPassport } from '../../../control-plane/passports/suspend-passport.ts';
import { readChanges } from '../../../control-plane/sync/read-changes.ts';
import { takeSnapshot } from '../../../control-plane/sync/take-snapshot.ts';
import { digestWordsOf, idDigest } from '../../../shared/crypto/id-digest.ts';
import type { VerifiedPassport } from '../../../shared/decision/facts.ts';
import type { AccountId, IssuerId, PassportId } from '../../../shared/model/ids.ts';
import { feedChannel, globalFeed } from '../../../shared/wire/sync/sync.ts';
import { until } from '../../support/base/until.ts';
import { callerOfAccount, operatorCaller } from '../../support/data/caller.ts';
import { type TestRedis, testRedis } from '../../support/peers/redis.ts';
import { type Followed, startFollowed } from './set-up.ts';

/** What a tenant suspends and revokes: ids, and an end that is its passport's alone. */
interface Foreign {
  readonly accountId: AccountId;
  readonly issuerId: IssuerId;
  readonly revokedId: PassportId;
  readonly suspendedId: PassportId;
  readonly expiresAtMs: number;
}

async function makeForeign({ api }: Followed): Promise<Foreign> {
  const { accountId, key } = await api.createAccount();
  const { issuer_id: issuerId } = await api.createIssuer({}, key);
  const [revoked, suspended] = [await api.issuePassport({}, key), await api.issuePassport({}, key)];
  return {
    accountId: accountId as AccountId,
    issuerId,
    revokedId: revoked.passport_id,
    suspendedId: suspended.passport_id,
    expiresAtMs: Date.parse(revoked.expires_at),
  };
}

/** At the replica of the control plane that publishes where the follower listens. */
async function suspendAll({ deps }: Followed, foreign: Foreign): Promise<void> {
  const { accountId, issuerId, revokedId, suspendedId } = foreign;
  const caller = callerOfAccount(deps, accountId);
  await revokePassport(deps, caller, { passportId: revokedId, reason: 'a test' });
  await suspendPassport(deps, caller, suspendedId);
  await updateIssuer(deps, caller, { issuerId, body: { status: 'suspended' } });
  await updateAccount(deps, await operatorCaller(deps), { accountId, body: { status: 'suspended' } });
}

function expectToNameNobody(where: string, text: string, foreign: Foreign): void {
  const { accountId, issuerId, revokedId, suspendedId, expiresAtMs } = foreign;
  for (const id of [accountId, issuerId, revokedId, suspendedId]) {
    // Also without its prefix: 26 characters say as much.
    expect(text, where).not.toContain(id.slice(id.indexOf('_') + 1));
    expect(text, where).not.toContain(Buffer.from(id).toString('base64url').slice(0, -2));
  }
  expect(text, where).not.toContain(`${expiresAtMs}`);
  expect(text, where).not.toContain(new Date(expiresAtMs).toISOString());
}

/** Without this, a search that finds nothing would show nothing. */
function expectToSpeakOf(where: string, text: string, foreign: Foreign): void {
  for (const id of [foreign.accountId, foreign.issuerId, foreign.revokedId, foreign.suspendedId])
    expect(text, where).toContain(idDigest(id));
}

const filesIn = (folder: string): string =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'utf8'))
    .join('\n');

let redis: TestRedis | null = null;
let service: Followed;
let stopListening: (() => Promise<unknown>) | null = null;
afterEach(async () => {
  await stopListening?.();
  await service.close();
  await redis?.stop();
  redis = null;
  stopListening = null;
});

describe.each(['same process', 'Redis'] as const)('a sidecar with push: %s', (push) => {
  it('learns no id and no end of what another account suspends, yet knows each by its token', async () => {
    if (push === 'Redis') redis = await testRedis();
    service = await startFollowed(redis === null ? 'same process' : { redisUrl: redis.url });
    const pushed: string[] = [];
    stopListening = await listen(pushed);
    const follower = await service.follow();
    await follower.isUpToDate();
    const foreign = await makeForeign(service);
    await suspendAll(service, foreign);
    await follower.isUpToDate();
    await until(() => pushed.some((text) => text.includes(idDigest(foreign.accountId))), {
      what: 'all pushed',
    });
    const beginning = { revision: 0, mark: '' };
    const after = { account: beginning, global: beginning };
    const pulled = await readChanges(service.deps, { accountId: service.accountId, after, waitMs: 0 });
    const snapshot = Buffer.concat(await takeSnapshot(service.deps, service.accountId)).toString();
    const standing = (passportId: string, issuerId = '', accountId = '') =>
      follower.replica.standing({
        digests: digestWordsOf(passportId, issuerId, accountId),
      } as VerifiedPassport);
    expect(standing(foreign.revokedId)).toMatchObject({ status: 'revoked', isIssuerSuspended: false });
    expect(standing(foreign.suspendedId)).toMatchObject({ status: 'suspended', isAccountSuspended: false });
    expect(standing('', foreign.issuerId)).toMatchObject({ status: 'active', isIssuerSuspended: true });
    expect(standing('', '', foreign.accountId)).toMatchObject({ isAccountSuspended: true });
    await follower.stop();
    const again = await service.follow({ folder: follower.folder, sidecarId: follower.sidecarId });
    await again.isUpToDate();
    await again.stop();

    const texts = {
      pushed: pushed.join('\n'),
      pulled: JSON.stringify(pulled),
      snapshot,
      disk: filesIn(follower.folder),
    };
    for (const [where, text] of Object.entries(texts)) expectToNameNobody(where, text, foreign);
    for (const where of ['pushed', 'pulled', 'disk'] as const) expectToSpeakOf(where, texts[where], foreign);
  });

  /** What anybody hears who listens where this account's sidecars may. */
  async function listen(pushed: string[]): Promise<() => Promise<unknown>> {
    if (redis === null) {
      const stops = await Promise.all(
        ([globalFeed, service.accountId] as const).map((feedId) =>
          service.deps.bus.subscribe(feedChannel(feedId), (text) => void pushed.push(text)),
        ),
      );
      return () => Promise.all(stops.map((stop) => stop()));
    }
    const client = new Redis(redis.url);
    client.on('message', (_channel, text) => pushed.push(text));
    await client.subscribe(feedChannel(globalFeed), feedChannel(service.accountId));
    return () => client.quit();
  }
});
