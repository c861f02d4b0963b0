import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { apiKeyRandomBytes, hashApiKey, makeApiKey, parseApiKey } from '../../shared/crypto/api-key.ts';
import { must } from '../../shared/errors/assert.ts';
import type { ApiKey } from '../../shared/model/api-key.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { type Mode, modes } from '../../shared/model/mode.ts';
import type { Scope } from '../../shared/model/scopes.ts';
import { isExpired } from '../../shared/model/time.ts';
import { readOrMakeSecretFile, readSecretFile } from '../../shared/runtime/secret-file.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import { addApiKey } from '../api-keys/create-api-key.ts';
import type { Transaction } from '../base/database.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { advisoryLocks } from '../storage/locks.ts';
import { changeTransaction, createFeed, type WriteChange } from '../sync/change-transaction.ts';
import { insertAccount } from './account-store.ts';

type FirstAccountDeps = Pick<SigningDeps, 'sql' | 'clock' | 'random' | 'bus' | 'signingKeys' | 'logger'>;

export interface FirstAccount {
  /** The file in `dataDir` with an admin key; null: the key came from outside, or was in use before. */
  readonly adminKeyFile: string | null;
}

/**
 * Makes the operator's account on the first start, with its first `admin:*` key. The key is `adminApiKey`, or
 * the content of `<dataDir>/admin-api-key`; if the account has no usable admin key, one is generated into
 * that file. The file is written before the database: a crash in between leaves a key that the next start
 * registers, never an account without a key.
 *
 * A deleted or expired key is not revived. To recover from the loss of every key, start once with another
 * ADMIN_API_KEY.
 */
export async function ensureFirstAccount(
  deps: FirstAccountDeps,
  options: { readonly dataDir: string; readonly adminApiKey: string | null },
): Promise<FirstAccount> {
  const path = join(options.dataDir, 'admin-api-key');
  const key = options.adminApiKey ?? (await adminKeyInFile(deps, path));
  const firstKey = key === null ? null : { key, name: 'First key', scopes: ['admin:*'] as const };
  const isUsable = await ensureAccountAndKey(deps, firstKey);
  if (firstKey !== null && !isUsable) {
    const source = options.adminApiKey === null ? path : 'ADMIN_API_KEY';
    deps.logger.warn({ source }, 'this admin key was deleted or has expired and is not accepted');
  } else if (!(await hasUsableAdminKey(deps, ['live']))) {
    deps.logger.warn({}, onlyTestKeys);
  }
  return { adminKeyFile: options.adminApiKey === null && firstKey !== null ? path : null };
}

/** Contract §1 allows a test key as the first one; without a warning its limits would show too late. */
const onlyTestKeys =
  "the operator's only admin keys are test keys: they can neither access live data nor create a live key; for a live key, start once with an ADMIN_API_KEY that begins with at_live_";

/**
 * The key of a sidecar on this machine, stored in `<dataDir>/sidecar-api-key` in the same order of writes. A
 * deleted or expired one is replaced. It is always live, and its only scope is `sidecars:connect`.
 */
export async function ensureSidecarKey(deps: FirstAccountDeps, dataDir: string): Promise<string> {
  const path = join(dataDir, 'sidecar-api-key');
  const ensure = async (): Promise<string | null> => {
    const key = checkedKey(path, await readOrMakeSecretFile(path, () => newKey(deps)));
    if (parseApiKey(key)?.mode !== 'live')
      throw new StartError(`${path} contains a test key. Remove the file.`);
    const scopes = ['sidecars:connect'] as const;
    return (await ensureAccountAndKey(deps, { key, name: 'Sidecar on this machine', scopes })) ? key : null;
  };
  const kept = await ensure();
  if (kept !== null) return kept;
  await rm(path, { force: true });
  return must(await ensure(), 'a key that was just made is usable');
}

async function adminKeyInFile(deps: FirstAccountDeps, path: string): Promise<string | null> {
  const kept = await readSecretFile(path);
  if (kept !== null) return checkedKey(path, kept);
  if (await hasUsableAdminKey(deps, modes)) return null;
  return readOrMakeSecretFile(path, () => newKey(deps));
}

function checkedKey(path: string, text: string): string {
  if (parseApiKey(text) === null)
    throw new StartError(`${path} contains no API key. Restore the file, or remove it.`);
  return text;
}

const newKey = ({ random }: FirstAccountDeps): string => makeApiKey('live', random.bytes(apiKeyRandomBytes));

async function hasUsableAdminKey(
  { sql, clock }: FirstAccountDeps,
  inModes: readonly Mode[],
): Promise<boolean> {
  const keys = await sql<Pick<ApiKey, 'expiresAtMs'>[]>`
    SELECT expires_at_ms AS "expiresAtMs" FROM api_keys JOIN accounts USING (account_id)
    WHERE is_operator AND 'admin:*' = ANY (scopes) AND mode = ANY (${[...inModes]}::text[]) AND revoked_at_ms IS NULL`;
  return keys.some((key) => !isExpired(key, clock.now()));
}

interface WantedKey {
  readonly key: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
}

/** False: the key is known and no longer usable. */
const ensureAccountAndKey = (deps: FirstAccountDeps, wanted: WantedKey | null): Promise<boolean> =>
  changeTransaction(deps, async (tx, change) => {
    await tx`SELECT pg_advisory_xact_lock(${advisoryLocks.firstAccount})`;
    const accountId = (await findOperator(tx)) ?? (await createOperator(tx, deps));
    return wanted !== null && ensureKey(tx, change, deps, { ...wanted, accountId });
  });

async function findOperator(tx: Transaction): Promise<AccountId | null> {
  const [row] = await tx<{ account_id: AccountId }[]>`SELECT account_id FROM accounts WHERE is_operator`;
  return row?.account_id ?? null;
}

async function createOperator(tx: Transaction, { clock, random }: FirstAccountDeps): Promise<AccountId> {
  const createdAtMs = clock.now();
  const accountId = random.newId('acct', createdAtMs);
  await insertAccount(tx, {
    accountId,
    name: 'Operator',
    plan: 'enterprise',
    status: 'active',
    limits: null,
    isOperator: true,
    createdAtMs,
  });
  await createFeed(tx, accountId);
  return accountId;
}

async function ensureKey(
  tx: Transaction,
  change: WriteChange,
  { clock, random }: FirstAccountDeps,
  wanted: WantedKey & { readonly accountId: AccountId },
): Promise<boolean> {
  const nowMs = clock.now();
  const keyHash = hashApiKey(wanted.key);
  const [known] = await tx<Pick<ApiKey, 'revokedAtMs' | 'expiresAtMs'>[]>`
    SELECT revoked_at_ms AS "revokedAtMs", expires_at_ms AS "expiresAtMs" FROM api_keys WHERE key_hash = ${keyHash}`;
  if (known !== undefined) return known.revokedAtMs === null && !isExpired(known, nowMs);
  await addApiKey(tx, change, {
    keyId: random.newId('key', nowMs),
    accountId: wanted.accountId,
    name: wanted.name,
    scopes: wanted.scopes,
    mode: must(parseApiKey(wanted.key), 'a key was parsed where it came in').mode,
    keyHash,
    prefix: wanted.key.slice(0, 12),
    last4: wanted.key.slice(-4),
    createdAtMs: nowMs,
    expiresAtMs: null,
    endsWithKeyId: null,
    revokedAtMs: null,
    lastUsedAtMs: null,
  });
  return true;
}
