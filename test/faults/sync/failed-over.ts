import { digestWordsOf } from '../../../shared/crypto/id-digest.ts';
import type { VerifiedPassport } from '../../../shared/decision/facts.ts';
import { globalFeed } from '../../../shared/wire/sync/sync.ts';
import { type Followed, type Follower, type Push, startFollowed } from './set-up.ts';

export const issue = async ({ api, adminKey }: Followed): Promise<string> =>
  (await api.issuePassport({}, adminKey)).passport_id;

/** Also while nobody listens at the control plane's port. Resolves to the revision. */
export async function revoke({ api, adminKey }: Followed, passportId: string): Promise<number> {
  const url = `/v1/passports/${passportId}/revoke`;
  const { body } = await api.call({ url, key: adminKey, body: {} });
  return body.propagation.revision;
}

export const statusAt = (follower: Follower, passportId: string) =>
  follower.replica.standing({ digests: digestWordsOf(passportId, '', '') } as VerifiedPassport).status;

export const statusesAt = (follower: Follower, passportIds: readonly string[]) =>
  passportIds.map((passportId) => statusAt(follower, passportId));

export const isRegressed = async ({ api }: Followed): Promise<boolean> =>
  (await api.call({ url: '/readyz', key: null })).body.history.state === 'regressed';

/** A sidecar has applied the revocations of three passports; of the last two nothing is left. */
export async function failOver(push: Push) {
  const service = await startFollowed(push);
  const follower = await service.follow();
  const [kept, lost, lostLast] = [await issue(service), await issue(service), await issue(service)];
  const revision = await revoke(service, kept);
  await revoke(service, lost);
  await revoke(service, lostLast);
  await follower.isUpToDate();
  await service.goAway();
  // As a standby that takes over and lacks the newest commits, acknowledgements included.
  const { sql } = service.deps;
  await sql`UPDATE feeds SET revision = ${revision} WHERE feed_id = ${globalFeed}`;
  await sql`DELETE FROM changes WHERE feed_id = ${globalFeed} AND revision > ${revision}`;
  await sql`UPDATE sidecars SET acked_global_revision = least(acked_global_revision, ${revision})`;
  await sql`
    UPDATE passports SET status = 'active', revoked_at_ms = NULL, revocation_reason = NULL
    WHERE passport_id IN (${lost}, ${lostLast})`;
  return { service, follower, kept, lost, lostLast, appliedRevision: revision + 2 };
}
