import { randomBytes } from 'node:crypto';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { startEmbeddedPostgres } from '../../control-plane/storage/embedded.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { measuredCore } from './cores.ts';
import { copiedDatabase, type DatabaseKind, startDebianDatabase } from './database.ts';
import { newFolder, removeFolder } from './folders.ts';
import { program, ready } from './installation.ts';
import { freePort, type Program, start } from './programs.ts';

/** The connection is silent while the database makes records by the hundred thousand. */
const fillingMsMax = 600_000;

/**
 * A control plane alone on the measured core, over a database to which this process has access too, for
 * filling it.
 */
export interface AuditStage {
  readonly origin: string;
  readonly controlPlane: Program;
  readonly sql: Database;
  /** With which the signing keys in the database are sealed. */
  readonly masterKey: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
  /** The account of the key in `headers`. */
  readonly owner: Owner;
  readonly passportIds: readonly string[];
  readonly gateIds: readonly string[];
  /** The policy of each gate, by its id: what records of its decisions name. */
  readonly policies: ReadonlyMap<string, string>;
  /** For files; goes with the stage. */
  readonly folder: string;
  stop(): Promise<void>;
}

export async function setAuditStage(of: {
  readonly passports: number;
  readonly gates: number;
  /** More settings of the control plane. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Of the control plane; default: the measured one. */
  readonly core?: Parameters<typeof start>[0]['core'];
  /** Default: the embedded one, which never waits for the disk. */
  readonly database?: DatabaseKind;
  /** Path of the command `agent-trust` of another build. Default: this one. */
  readonly command?: string;
}): Promise<AuditStage> {
  const folder = newFolder('audit-stage');
  // PostgreSQL runs as a user of its own when this is run by root, and must be able to pass through.
  chmodSync(folder, 0o711);
  const stops: (() => Promise<void>)[] = [async () => removeFolder(folder)];
  const stop = async () => {
    for (const each of stops.toReversed()) await each();
  };
  try {
    const copy = await copiedDatabase();
    const postgres =
      of.database === 'debian' && copy === null
        ? await startDebianDatabase({ folder })
        : await disposableDatabase(folder, copy);
    stops.push(() => postgres.stop());
    const masterKey = randomBytes(32);
    const apiKey = `at_live_${randomBytes(24).toString('hex')}`;
    const origin = `http://127.0.0.1:${await freePort()}`;
    const controlPlane = start({
      core: of.core ?? measuredCore,
      command: [process.execPath, of.command ?? program, 'control-plane'],
      environment: {
        PORT: new URL(origin).port,
        ADMIN_API_KEY: apiKey,
        DATABASE_URL: postgres.url,
        MASTER_KEY: masterKey.toString('base64url'),
        DATA_DIR: join(folder, 'control-plane'),
        LOG_LEVEL: 'warn',
        ...of.environment,
      },
    });
    stops.push(() => controlPlane.stop());
    await ready(origin, controlPlane);
    const sql = connect({ url: postgres.url, connectionsMax: 1, silenceMsMax: fillingMsMax });
    stops.push(() => sql.end({ timeout: 1 }));
    const headers = { authorization: `Bearer ${apiKey}` };
    const [operator] = await sql<{ account_id: AccountId }[]>`
      SELECT account_id FROM accounts WHERE is_operator`;
    const create = creator(`${origin}/v1`, headers);
    const passportIds = await many(of.passports, (i) =>
      create('/passports', { agent_id: `agent-${i}`, permissions: ['orders:create'] }, 'passport_id'),
    );
    const gateIds = await many(of.gates, (i) =>
      create('/gates', { name: `gate ${i}`, trust_level: 'L1' }, 'gate_id'),
    );
    const policies = await sql<{ id: string; hash: string }[]>`
      SELECT gate_id AS id, policy_hash AS hash FROM gate_policies`;
    return {
      origin,
      controlPlane,
      sql,
      masterKey,
      headers,
      owner: { accountId: must(operator, 'there is a first account').account_id, mode: 'live' },
      ...{ passportIds, gateIds },
      policies: new Map(policies.map(({ id, hash }) => [id, hash])),
      folder,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The embedded one, in a folder below this, or a copy that is there. */
export const disposableDatabase = async (
  folder: string,
  copy: string | null,
): Promise<{ readonly url: string; stop(): Promise<void> }> =>
  copy === null
    ? startEmbeddedPostgres({
        ...{ dataDir: join(folder, 'database'), logger: silentLogger, isDisposable: true },
      })
    : { url: copy, stop: async () => undefined };

const creator =
  (base: string, headers: Readonly<Record<string, string>>) =>
  async (path: string, body: object, idField: string): Promise<string> => {
    const answer = await fetch(`${base}${path}`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`POST ${path} answered ${answer.status}: ${text}`);
    return String(JSON.parse(text)[idField]);
  };

async function many(count: number, make: (index: number) => Promise<string>): Promise<string[]> {
  const made: string[] = [];
  for (let i = 0; i < count; i += 1) made.push(await make(i));
  return made;
}
