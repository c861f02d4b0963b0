import type { Ed25519 } from '../../shared/crypto/ed25519.ts';
import { digestCount, digestWordsOf, readDigests } from '../../shared/crypto/id-digest.ts';
import { type Keyset, keyset } from '../../shared/crypto/keyset.ts';
import { type CompiledGate, compileGate } from '../../shared/decision/compile-gate.ts';
import { type CompiledRoutes, compileRoutes } from '../../shared/decision/compile-routes.ts';
import { assert, unreachable } from '../../shared/errors/assert.ts';
import type { GateShadow } from '../../shared/model/gate.ts';
import type { GateRoute } from '../../shared/model/gate-route.ts';
import { holdDefaults } from '../../shared/model/hold.ts';
import { type DigestWords, type IdDigest, idDigestWords } from '../../shared/model/id-digest.ts';
import type { AccountId, ApiKeyId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import { parseScope, type Scope } from '../../shared/model/scopes.ts';
import type { VerificationKey } from '../../shared/model/signing-key.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { ForeignIssuerTable } from '../../shared/verification/foreign-issuers.ts';
import { parseCatalogTerms } from '../../shared/wire/api/catalog.ts';
import { readForms } from '../../shared/wire/api/conditions.ts';
import { parseConstraints, parseNewConstraints } from '../../shared/wire/api/constraints.ts';
import { parseFederatedIssuer } from '../../shared/wire/api/federation.ts';
import { parseGateRoutes } from '../../shared/wire/api/gate-routes.ts';
import { mergePatch } from '../../shared/wire/api/merge-patch.ts';
import { parseStandingApprovalOfFeed } from '../../shared/wire/api/standing-approval.ts';
import {
  type ApiKeyBody,
  type BadRow,
  type Change,
  type FederationInFeed,
  type GateBody,
  type PassportStandingBody,
  readShadowBody,
  type Snapshot,
} from '../../shared/wire/sync/sync-schema.ts';
import { DigestTable } from './digest-table.ts';
import { StatusTable } from './status-table.ts';
import { WalletChanges } from './wallet-changes.ts';

/** An API key of the sidecar's account. */
export interface KnownCaller {
  readonly keyId: ApiKeyId;
  readonly mode: Mode;
  readonly scopes: readonly Scope[];
  /** Null: never. */
  readonly expiresAtMs: UnixMillis | null;
}

/** A sidecar's knowledge, ready for decisions. Written by `applyChange` alone. */
export interface ReplicaState {
  readonly accountId: AccountId;
  readonly accountDigest: DigestWords;
  /** PUBLIC_URL of the control plane. Null: it named none. */
  readonly publicUrl: string | null;
  /** Of both modes, by id. */
  readonly gates: Map<string, CompiledGate>;
  /** By gate id; only gates with routes. */
  readonly routes: Map<string, CompiledRoutes>;
  /** By gate id; only gates whose shadow has other routes. */
  readonly shadowRoutes: Map<string, CompiledRoutes>;
  /** By key hash. */
  readonly callers: Map<string, KnownCaller>;
  readonly callerHashes: Map<ApiKeyId, string>;
  readonly standings: StatusTable;
  /** A set: the values have no meaning. */
  readonly suspendedIssuers: DigestTable;
  readonly suspendedAccounts: DigestTable;
  readonly wallets: WalletChanges;
  /** By kid; all purposes. */
  readonly signingKeys: Map<string, VerificationKey>;
  /** The same keys, ready to verify. Replaced with every change. */
  keys: Keyset;
  /** Issuers of others, ready to verify their tokens. */
  readonly foreignIssuers: ForeignIssuerTable;
  /** By kind and id: unusable rows, absent from the members above. */
  readonly badRows: Map<string, BadRow>;
}

/**
 * Sets aside unusable gates and keys, together with unreadable rows: without them less is permitted. Throws
 * for any other fault of the snapshot: half a state is none.
 */
export function stateOf(
  snapshot: Snapshot,
  ed25519: Ed25519,
  unreadable: readonly BadRow[] = [],
): ReplicaState {
  const badRows = new Map<string, BadRow>();
  const setAside = (row: BadRow) => badRows.set(rowName(row.of, row.id ?? `unnamed ${badRows.size}`), row);
  for (const row of unreadable) setAside(row);
  const signingKeys = snapshot.signing_keys.filter((key) =>
    isUsable(
      () => keyset(ed25519, [key]),
      (reason) => setAside({ of: 'signing_key', id: key.kid, reason }),
    ),
  );
  const state: ReplicaState = {
    accountId: snapshot.account_id,
    accountDigest: digestWordsOf(snapshot.account_id),
    publicUrl: snapshot.public_url ?? null,
    gates: new Map(),
    routes: new Map(),
    shadowRoutes: new Map(),
    callers: new Map(),
    callerHashes: new Map(),
    standings: new StatusTable(countOf(snapshot.passport_standings)),
    suspendedIssuers: new DigestTable(),
    suspendedAccounts: new DigestTable(),
    wallets: new WalletChanges(snapshot.frozen_wallets),
    signingKeys: new Map(signingKeys.map((key) => [key.kid, key])),
    keys: keyset(ed25519, signingKeys),
    foreignIssuers: new ForeignIssuerTable(snapshot.account_id),
    badRows,
  };
  for (const federation of snapshot.federations ?? []) putFederation(state, federation);
  for (const issuer of snapshot.suspended_issuers) suspend(state.suspendedIssuers, issuer, 'suspended');
  for (const account of snapshot.suspended_accounts) suspend(state.suspendedAccounts, account, 'suspended');
  if (snapshot.account_status === 'suspended')
    state.suspendedAccounts.set(state.accountDigest, 0, isSuspended);
  for (const gate of snapshot.gates) {
    isUsable(
      () => putGate(state, gate),
      (reason) => setAside({ of: 'gate', id: gate.gate_id, reason }),
    );
  }
  for (const apiKey of snapshot.api_keys) putCaller(state, apiKey);
  for (const { passports, standing: told, expired_by_day, in_wallet } of snapshot.passport_standings) {
    const standing = in_wallet === true ? 'in_wallet' : told;
    const words = readDigests(passports);
    for (let at = 0; at < words.length; at += idDigestWords) {
      state.standings.set(words, standing, { at, expiredByDay: expired_by_day });
    }
  }
  return state;
}

const rowName = (of: BadRow['of'], id: string): string => `${of} ${id}`;

function isUsable(use: () => unknown, otherwise: (reason: string) => void): boolean {
  try {
    use();
    return true;
  } catch (error) {
    otherwise(error instanceof Error ? error.message : String(error));
    return false;
  }
}

const countOf = (groups: Snapshot['passport_standings']): number =>
  groups.reduce((sum, { passports }) => sum + digestCount(passports), 0);

/** Atomic: a bad change throws and leaves the state as it was. */
export function applyChange(state: ReplicaState, change: Change, ed25519: Ed25519): void {
  switch (change.kind) {
    case 'gate.put':
      putGate(state, change.body);
      break;
    case 'gate.delete':
      if (change.body.federation !== undefined) putFederation(state, change.body.federation);
      state.gates.delete(change.body.gate_id);
      state.badRows.delete(rowName('gate', change.body.gate_id));
      state.routes.delete(change.body.gate_id);
      state.shadowRoutes.delete(change.body.gate_id);
      break;
    case 'api_key.put':
      putCaller(state, change.body);
      break;
    case 'api_key.delete':
      deleteCaller(state, change.body.key_id);
      break;
    case 'passport.standing':
      setStanding(state, change.body);
      break;
    case 'issuer.standing':
      if (change.body.of === 'wallet')
        state.wallets.setWallet(change.body.issuer, change.body.standing === 'suspended');
      else suspend(state.suspendedIssuers, change.body.issuer, change.body.standing);
      break;
    case 'account.standing':
      suspend(state.suspendedAccounts, change.body.account, change.body.standing);
      break;
    case 'signing_key.put':
      putSigningKey(state, change.body, ed25519);
      break;
    default:
      unreachable(change);
  }
}

function putGate(state: ReplicaState, gate: GateBody): void {
  assert(gate.account_id === state.accountId, 'a sidecar receives the gates of its own account only');
  const shadow = shadowOf(gate);
  const patches = [gate.constraints_patch ?? {}, gate.conditions_patch ?? {}];
  const told = patches.reduce<unknown>(mergePatch, gate.constraints);
  const compiled = compileGate(
    {
      gateId: gate.gate_id,
      accountId: gate.account_id,
      mode: gate.mode,
      version: gate.version,
      policyVersion: gate.policy_version,
      policyHash: gate.policy_hash ?? null,
      trustLevel: gate.trust_level,
      constraints: parseConstraints(told, { param: 'constraints', of: 'gate' }),
      conditionForms: readForms(gate.condition_forms),
      namesAsker: gate.names_asker ?? false,
      holdExpiresInMs: gate.hold_expires_in_ms ?? holdDefaults.expiresInMs,
      shadow,
    },
    gate.catalog
      ? parseCatalogTerms({ prices: gate.catalog, approvals: gate.catalog_approvals ?? [] })
      : null,
    (gate.standing_approvals ?? []).map(parseStandingApprovalOfFeed),
  );
  const routes = compileRoutes(parseGateRoutes(gate.routes ?? []));
  state.gates.set(gate.gate_id, compiled);
  state.badRows.delete(rowName('gate', gate.gate_id));
  if (routes.length > 0) state.routes.set(gate.gate_id, routes);
  else state.routes.delete(gate.gate_id);
  const others = shadow === null || isSameRoutes(shadow.routes, gate.routes) ? null : shadow.routes;
  if (others === null) state.shadowRoutes.delete(gate.gate_id);
  else state.shadowRoutes.set(gate.gate_id, compileRoutes(others));
}

const isSameRoutes = (routes: readonly GateRoute[], told: GateBody['routes']): boolean =>
  JSON.stringify(routes) === JSON.stringify(parseGateRoutes(told ?? []));

/** Null: there is none, or one of a later version, which this one must not fail on. */
function shadowOf({
  shadow,
}: GateBody): Pick<
  GateShadow,
  'trustLevel' | 'constraints' | 'routes' | 'policyHash' | 'expiresAtMs'
> | null {
  const told = readShadowBody(shadow);
  if (told === null) return null;
  try {
    return {
      policyHash: told.policy_hash,
      expiresAtMs: told.expires_at_ms,
      trustLevel: told.trust_level,
      constraints: parseNewConstraints(told.constraints, { param: 'constraints', of: 'gate' }),
      routes: parseGateRoutes(told.routes ?? []),
    };
  } catch {
    return null;
  }
}

/**
 * One that cannot be used counts as absent: its tokens are untrusted. A subject of another account's issuer
 * gets a PERMIT once its wallets were asked for: by then the control plane has seen its token, without which
 * it would take no record of this account about it.
 */
function putFederation(state: ReplicaState, told: FederationInFeed): void {
  const { issuer_id: issuerId, account_id: accountId } = told;
  const isOther = accountId !== state.accountId;
  const name = rowName('federation', issuerId);
  state.badRows.delete(name);
  const put = () =>
    told.is_active
      ? state.foreignIssuers.put(parseFederatedIssuer(isOther ? { ...told, has_wallets: true } : told))
      : state.foreignIssuers.suspend({ issuerId, accountId });
  isUsable(put, (reason) => {
    state.foreignIssuers.remove(issuerId);
    state.badRows.set(name, { of: 'federation', id: issuerId, reason });
  });
}

function putCaller(state: ReplicaState, apiKey: ApiKeyBody): void {
  deleteCaller(state, apiKey.key_id);
  state.callerHashes.set(apiKey.key_id, apiKey.key_hash);
  state.callers.set(apiKey.key_hash, {
    keyId: apiKey.key_id,
    mode: apiKey.mode,
    // A scope of a later version guards nothing here.
    scopes: apiKey.scopes.filter((scope) => parseScope(scope) !== null),
    expiresAtMs: apiKey.expires_at_ms,
  });
}

function deleteCaller(state: ReplicaState, keyId: ApiKeyId): void {
  state.badRows.delete(rowName('api_key', keyId));
  const keyHash = state.callerHashes.get(keyId);
  if (keyHash === undefined) return;
  state.callerHashes.delete(keyId);
  state.callers.delete(keyHash);
}

function setStanding(state: ReplicaState, body: PassportStandingBody): void {
  const expiredByDay = body.expired_by_day;
  const standing = body.in_wallet === true ? 'in_wallet' : body.standing;
  state.standings.set(readDigests(body.passport), standing, { at: 0, expiredByDay });
  state.wallets.note(body.passport);
}

const isSuspended = 1;
const isNotSuspended = 0;

function suspend(suspended: DigestTable, digest: IdDigest, standing: 'active' | 'suspended'): void {
  suspended.set(readDigests(digest), 0, standing === 'suspended' ? isSuspended : isNotSuspended);
}

function putSigningKey(state: ReplicaState, key: VerificationKey, ed25519: Ed25519): void {
  // Import first: it throws for an unusable key.
  state.keys = keyset(ed25519, [...new Map(state.signingKeys).set(key.kid, key).values()]);
  state.signingKeys.set(key.kid, key);
  state.badRows.delete(rowName('signing_key', key.kid));
}
