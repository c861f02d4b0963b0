import { decodeBase64url, encodeBase64url } from '../../shared/crypto/base64url.ts';
import type { Keyset } from '../../shared/crypto/keyset.ts';
import { idDigestBytes } from '../../shared/model/id-digest.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { globalFeed } from '../../shared/wire/sync/sync.ts';
import {
  type ChangeEntry,
  type FederationInFeed,
  openEntry,
  readSnapshot,
  type SealedEntry,
  type SignedSnapshot,
} from '../../shared/wire/sync/sync-schema.ts';
import { changeVerifies, snapshotVerifies } from '../../shared/wire/sync/sync-signature.ts';

export interface KnownStanding {
  readonly standing: 'suspended' | 'revoked';
  readonly expiredByDay: number | null;
}

/** What was in force at a sidecar, as far as it takes something away. */
export interface SidecarState {
  readonly generation: string | null;
  readonly takenAtMs: UnixMillis;
  /** By digest; owners, too. */
  readonly passports: ReadonlyMap<string, KnownStanding>;
  readonly issuers: ReadonlySet<string>;
  readonly accounts: ReadonlySet<string>;
  /** Issuers of others of the account, by id. */
  readonly federations: ReadonlyMap<string, FederationInFeed>;
  /** Everything that the account had, by id: gates with the version of their policy. */
  readonly gates: ReadonlyMap<string, number>;
  readonly apiKeys: ReadonlySet<string>;
}

/**
 * Reads a signed snapshot and the signed changes after it, up to the first that does not follow or that this
 * service did not sign. Null: the snapshot is not this service's, or of another account.
 */
export function readSidecarState(
  keys: Keyset,
  accountId: AccountId,
  { signed, entries }: { readonly signed: SignedSnapshot; readonly entries: readonly SealedEntry[] },
): SidecarState | null {
  if (!snapshotVerifies(keys, signed)) return null;
  const { snapshot } = readSnapshot(signed.snapshot);
  if (snapshot.account_id !== accountId) return null;
  const state = {
    generation: snapshot.generation ?? null,
    takenAtMs: snapshot.taken_at_ms,
    passports: new Map(
      snapshot.passport_standings.flatMap(
        ({ passports, standing, expired_by_day: expiredByDay, in_wallet: isInWallet }) =>
          (isInWallet === true ? [] : digestsIn(passports)).map(
            (digest) => [digest, { standing, expiredByDay }] as const,
          ),
      ),
    ),
    issuers: new Set<string>(snapshot.suspended_issuers),
    accounts: new Set<string>(snapshot.suspended_accounts),
    federations: new Map<string, FederationInFeed>(
      (snapshot.federations ?? []).map((each) => [each.issuer_id, each]),
    ),
    gates: new Map<string, number>(
      snapshot.gates.map(({ gate_id, policy_version }) => [gate_id, policy_version]),
    ),
    apiKeys: new Set<string>(snapshot.api_keys.map(({ key_id }) => key_id)),
  };
  const marks = new Map<string, { revision: number; mark: string }>([
    [accountId, { revision: snapshot.account_revision, mark: snapshot.account_mark }],
    [globalFeed, { revision: snapshot.global_revision, mark: snapshot.global_mark }],
  ]);
  for (const entry of entries) {
    const at = marks.get(entry.feed_id);
    if (at === undefined || entry.revision !== at.revision + 1 || entry.previous !== at.mark) break;
    if (!changeVerifies(keys, entry)) break;
    apply(state, openEntry(entry));
    marks.set(entry.feed_id, { revision: entry.revision, mark: entry.signature });
  }
  return state;
}

interface Changing {
  readonly passports: Map<string, KnownStanding>;
  readonly issuers: Set<string>;
  readonly accounts: Set<string>;
  readonly federations: Map<string, FederationInFeed>;
  readonly gates: Map<string, number>;
  readonly apiKeys: Set<string>;
}

function apply(state: Changing, { kind, body }: ChangeEntry): void {
  const put = (set: Set<string>, id: string, isIn: boolean) => (isIn ? set.add(id) : set.delete(id));
  if (kind === 'passport.standing') {
    if (body.standing === 'active' || body.in_wallet === true) state.passports.delete(body.passport);
    else state.passports.set(body.passport, { standing: body.standing, expiredByDay: body.expired_by_day });
  } else if (kind === 'issuer.standing') {
    if (body.of === undefined) put(state.issuers, body.issuer, body.standing === 'suspended');
  } else if (kind === 'account.standing') put(state.accounts, body.account, body.standing === 'suspended');
  else if (kind === 'gate.put') state.gates.set(body.gate_id, body.policy_version);
  else if (kind === 'gate.delete') {
    state.gates.delete(body.gate_id);
    if (body.federation !== undefined) state.federations.set(body.federation.issuer_id, body.federation);
  } else if (kind === 'api_key.put') state.apiKeys.add(body.key_id);
  else if (kind === 'api_key.delete') state.apiKeys.delete(body.key_id);
}

function digestsIn(text: string): string[] {
  const bytes = decodeBase64url(text) ?? new Uint8Array();
  return Array.from({ length: Math.floor(bytes.length / idDigestBytes) }, (_, place) =>
    encodeBase64url(bytes.subarray(place * idDigestBytes, (place + 1) * idDigestBytes)),
  );
}
