import { encodeBase64url } from '../../../shared/crypto/base64url.ts';
import type { Ed25519, Signer } from '../../../shared/crypto/ed25519.ts';
import { idDigest } from '../../../shared/crypto/id-digest.ts';
import { thumbprint } from '../../../shared/crypto/keyset.ts';
import { type IdDigest, idDigestBytes } from '../../../shared/model/id-digest.ts';
import type { AccountId, ApiKeyId, GateId, IssuerId, PassportId } from '../../../shared/model/ids.ts';
import type { KeyPurpose, VerificationKey } from '../../../shared/model/signing-key.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { expiredByDay, type FeedId, globalFeed, syncVersion } from '../../../shared/wire/sync/sync.ts';
import type {
  ApiKeyBody,
  Change,
  ChangeEntry,
  GateBody,
  Heartbeat,
  PassportStandingGroup,
  SignedSnapshot,
  Snapshot,
} from '../../../shared/wire/sync/sync-schema.ts';
import { signChange, signHeartbeat, signSnapshot } from '../../../shared/wire/sync/sync-signature.ts';

/** Ids of the right form by number, so that a test can name them. */
export const numbered = {
  account: (n: number) => id<AccountId>('acct', n),
  gate: (n: number) => id<GateId>('gate', n),
  key: (n: number) => id<ApiKeyId>('key', n),
  passport: (n: number) => id<PassportId>('pass', n),
  issuer: (n: number) => id<IssuerId>('iss', n),
  keyHash: (n: number) => n.toString(16).padStart(64, '0'),
};

const id = <T>(prefix: string, n: number): T => `${prefix}_${String(n).padStart(26, '0')}` as T;

export const gateBody = (n: number, version = 1, accountId = numbered.account(1)): GateBody => ({
  gate_id: numbered.gate(n),
  account_id: accountId,
  mode: n % 2 === 0 ? 'live' : 'test',
  version,
  policy_version: version,
  trust_level: 'L1',
  constraints: {},
});

export const apiKeyBody = (n: number, expiresAtMs: number | null = null): ApiKeyBody => ({
  key_id: numbered.key(n),
  key_hash: numbered.keyHash(n),
  mode: 'live',
  scopes: ['enforcement:check'],
  expires_at_ms: expiresAtMs as UnixMillis | null,
});

export const standing = (
  n: number,
  what: 'active' | 'suspended' | 'revoked',
  expiresAtMs: number | null = null,
) =>
  ({
    kind: 'passport.standing',
    body: {
      passport: idDigest(numbered.passport(n)),
      standing: what,
      expired_by_day: expiredByDay(expiresAtMs as UnixMillis | null),
    },
  }) satisfies Change;

/** The standing of a passport in a snapshot, by the plainest way; undefined: active. */
export const standingIn = (snapshot: Snapshot, passportId: string) =>
  snapshot.passport_standings.find(({ passports }) => digestsIn(passports).includes(idDigest(passportId)));

const digestsIn = (passports: string): string[] => {
  const bytes = Buffer.from(passports, 'base64url');
  return Array.from({ length: bytes.length / idDigestBytes }, (_, i) =>
    bytes.toString('base64url', i * idDigestBytes, (i + 1) * idDigestBytes),
  );
};

/**
 * A control plane without one: two feeds, written by hand, signed with real keys, and the snapshot they add
 * up to.
 */
export class ModelService {
  readonly accountId: AccountId;
  readonly keys: VerificationKey[];
  readonly entries: Record<'account' | 'global', ChangeEntry[]>;
  readonly #ed25519: Ed25519;
  readonly #signers: Map<string, Signer>;
  #currentKid: string;
  #nextSeed = 1;

  /** `beside`: of another account, with the same keys and the same global feed. */
  constructor(ed25519: Ed25519, accountId = numbered.account(1), beside: ModelService | null = null) {
    this.#ed25519 = ed25519;
    this.accountId = accountId;
    this.keys = beside?.keys ?? [];
    this.entries = { account: [], global: beside?.entries.global ?? [] };
    this.#signers = beside === null ? new Map() : beside.#signers;
    if (beside !== null) {
      this.#currentKid = beside.#currentKid;
      return;
    }
    this.#currentKid = this.makeKey('sync').kid;
    this.makeKey('passport');
  }

  /** Known to the service from now on; not announced, and signing nothing until `signWith`. */
  makeKey(purpose: KeyPurpose): VerificationKey {
    const seed = new Uint8Array(32).fill(this.#nextSeed++);
    const signer = this.#ed25519.signer(seed);
    const key: VerificationKey = {
      kid: thumbprint(signer.publicKey),
      purpose,
      publicKey: encodeBase64url(signer.publicKey),
      notBeforeMs: 0 as UnixMillis,
      retiredAtMs: null,
      compromised: false,
    };
    this.#signers.set(key.kid, signer);
    this.keys.push(key);
    return key;
  }

  signWith(kid: string): void {
    this.#currentKid = kid;
  }

  get signing() {
    const signer = this.#signers.get(this.#currentKid);
    if (signer === undefined) throw new Error('no such key');
    return {
      kid: this.#currentKid,
      sign: (message: string) => encodeBase64url(signer.sign(Buffer.from(message))),
    };
  }

  change(feed: 'account' | 'global', change: Change): ChangeEntry {
    const entries = this.entries[feed];
    const entry = signChange(
      this.signing,
      { feedId: this.feedId(feed), revision: entries.length + 1, previous: this.mark(feed) },
      change,
    );
    entries.push(entry);
    if (change.kind === 'signing_key.put') {
      const place = this.keys.findIndex((key) => key.kid === change.body.kid);
      this.keys.splice(place === -1 ? this.keys.length : place, 1, change.body);
    }
    return entry;
  }

  /** The signature of the newest entry. */
  mark(feed: 'account' | 'global'): string {
    return this.entries[feed].at(-1)?.signature ?? '';
  }

  feedId(feed: 'account' | 'global'): FeedId {
    return feed === 'global' ? globalFeed : this.accountId;
  }

  heartbeat(feed: 'account' | 'global', atMs: number, replica = 'replica'): Heartbeat {
    return signHeartbeat(this.signing, {
      feed_id: this.feedId(feed),
      head: this.entries[feed].length,
      replica,
      at_ms: atMs as UnixMillis,
    });
  }

  /** What the feeds add up to, by the plainest way. */
  state(): Snapshot {
    const gates = new Map<GateId, GateBody>();
    const apiKeys = new Map<ApiKeyId, ApiKeyBody>();
    const standings = new Map<IdDigest, PassportStandingGroup>();
    const issuers = new Set<IdDigest>();
    const frozen = new Set<IdDigest>();
    const accounts = new Set<IdDigest>();
    for (const { kind, body } of [...this.entries.account, ...this.entries.global]) {
      if (kind === 'gate.put') gates.set(body.gate_id, body);
      if (kind === 'gate.delete') gates.delete(body.gate_id);
      if (kind === 'api_key.put') apiKeys.set(body.key_id, body);
      if (kind === 'api_key.delete') apiKeys.delete(body.key_id);
      if (kind === 'passport.standing') {
        const { passport, standing, expired_by_day, ...rest } = body;
        standings.delete(passport);
        if (standing !== 'active')
          standings.set(passport, { standing, expired_by_day, passports: passport, ...rest });
      }
      if (kind === 'issuer.standing') {
        const suspended = body.of === 'wallet' ? frozen : issuers;
        suspended.delete(body.issuer);
        if (body.standing === 'suspended') suspended.add(body.issuer);
      }
      if (kind === 'account.standing') accounts.delete(body.account);
      if (kind === 'account.standing' && body.standing === 'suspended') accounts.add(body.account);
    }
    return {
      sync_version: syncVersion,
      account_id: this.accountId,
      account_revision: this.entries.account.length,
      account_mark: this.mark('account'),
      global_revision: this.entries.global.length,
      global_mark: this.mark('global'),
      account_status: accounts.has(idDigest(this.accountId)) ? 'suspended' : 'active',
      gates: [...gates.values()],
      api_keys: [...apiKeys.values()],
      passport_standings: [...standings.values()],
      suspended_issuers: [...issuers],
      suspended_accounts: [...accounts],
      ...(frozen.size > 0 && { frozen_wallets: [...frozen] }),
      signing_keys: this.keys,
      taken_at_ms: 1_000 as UnixMillis,
    };
  }

  snapshot(changed: Partial<Snapshot> = {}): SignedSnapshot {
    return signSnapshot([this.signing], JSON.stringify({ ...this.state(), ...changed }));
  }
}
