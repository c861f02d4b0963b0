import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Registry } from 'prom-client';
import type { Bus } from '../shared/bus/bus.ts';
import { inProcessBus } from '../shared/bus/in-process.ts';
import { redisBus } from '../shared/bus/redis.ts';
import { chooseEd25519 } from '../shared/crypto/choose-ed25519.ts';
import { must } from '../shared/errors/assert.ts';
import { limits } from '../shared/model/limits.ts';
import { secondMs } from '../shared/model/time.ts';
import { CarriedClock } from '../shared/runtime/carried-clock.ts';
import { systemClock } from '../shared/runtime/clock.ts';
import { lockDataDir } from '../shared/runtime/data-dir-lock.ts';
import { concretePort } from '../shared/runtime/free-port.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { packageVersion } from '../shared/runtime/package-version.ts';
import { addBuildInfo, addProcessMetrics } from '../shared/runtime/process-metrics.ts';
import { systemRandom } from '../shared/runtime/random.ts';
import { RetryWaits } from '../shared/runtime/retry-waits.ts';
import { originOf, type SettingValues } from '../shared/runtime/settings.ts';
import { StartError } from '../shared/runtime/start-error.ts';
import { hasCode } from '../shared/runtime/system-error.ts';
import { type Teardown, teardown } from '../shared/runtime/teardown.ts';
import { tellWhenSlow } from '../shared/runtime/tell-when-slow.ts';
import { startTelemetry } from '../shared/telemetry/start-telemetry.ts';
import type { Telemetry } from '../shared/telemetry/telemetry.ts';
import { ensureFirstAccount, ensureSidecarKey } from './accounts/ensure-first-account.ts';
import { decisionSlots } from './admission/decision-slots.ts';
import { build } from './app.ts';
import { dueApprovals } from './approvals/approval-store.ts';
import { startApprovalSweep } from './approvals/sweep-approvals.ts';
import { recordFormOf } from './attestations/record-form.ts';
import { startFactsTrim } from './attestations/trim-facts.ts';
import { dueBacktests } from './backtests/backtest-store.ts';
import { startBacktests } from './backtests/keep-backtests.ts';
import { connectionShares } from './base/connection-shares.ts';
import type { Database } from './base/database.ts';
import { startChannelMessages } from './channels/deliver-messages.ts';
import { type Mailer, smtpMailer } from './channels/mailer.ts';
import { messageQueues } from './channels/message-queue.ts';
import { readConsole } from './console/served-file.ts';
import { CheckQueue } from './decisions/check-queue.ts';
import { decisionsLimits } from './decisions/limits.ts';
import { startProofTrim } from './decisions/trim-proofs.ts';
import { voidQueue } from './decisions/void-queue.ts';
import type { Deps } from './deps.ts';
import { discoveryShare } from './discovery/deps.ts';
import { publishHintsOf } from './events/note-hints.ts';
import { hintPublisher } from './events/publish-hints.ts';
import { startKeepingPolicies } from './gates/keep-policies.ts';
import { followHistory, historyPart } from './history/history.ts';
import { followForeignKeys } from './issuers/follow-keys.ts';
import { keepLog } from './log/keep-log.ts';
import { readWitnessPolicy } from './log/read-witness-policy.ts';
import { type Followed, followMasterKeys } from './master-key/follow-master-keys.ts';
import { fileKeySource, masterKeysOf } from './master-key/key-sources.ts';
import { leaveReplicas, takeMasterKeys } from './master-key/take-master-keys.ts';
import { type IdentityProvider, identityProvider } from './oidc/identity-provider.ts';
import { guardedFetch, TargetRefused } from './outbox/guarded-fetch.ts';
import { waitingIn } from './outbox/queues.ts';
import { startApplyingOutcomes } from './outcomes/apply-reported.ts';
import { startHoldSweep } from './outcomes/expire-holds.ts';
import { dueHolds } from './outcomes/outcome-store.ts';
import { dueReported } from './outcomes/reported-store.ts';
import { canonicalizeEmails } from './people/canonical-emails.ts';
import { type FirstOwnerLink, keepFirstOwnerLink } from './people/invite-first-owner.ts';
import { loginAttempts } from './people/login-attempts.ts';
import { passwordCost, passwordHasher } from './people/passwords.ts';
import { recordProjections } from './record-projections.ts';
import { sealedPlaces } from './sealed-places.ts';
import { followSigningKeys } from './signing/follow-signing-keys.ts';
import { signingLimits } from './signing/limits.ts';
import { loadSigningKeys } from './signing/load-signing-keys.ts';
import { signPool } from './signing/sign-pool.ts';
import { startStatisticsTrim } from './statistics/trim-statistics.ts';
import { addressOf, connect } from './storage/connect.ts';
import { keepRefusals, Refusals, refusalTeller, tellConnectionRoom } from './storage/connection-room.ts';
import { convertInBackground } from './storage/convert-in-background.ts';
import { databaseFailure } from './storage/database-away.ts';
import { clockPart, readDatabaseClock } from './storage/database-clock.ts';
import { startEmbeddedPostgres } from './storage/embedded.ts';
import { storageLimits } from './storage/limits.ts';
import { migrate, type OnStep, type OnWait } from './storage/migrate.ts';
import { type PulsePart, startPulse, wakingPart } from './storage/pulse.ts';
import { followReplica, Replica } from './storage/replica.ts';
import { followChanges, readAtReplicaOf, replicaOf } from './storage/replica-reads.ts';
import { passesThroughPooler } from './storage/session-settings.ts';
import { startRefusal } from './storage/start-refusals.ts';
import { traceTransactions } from './storage/transaction-spans.ts';
import { waitForDatabase } from './storage/wait-for-database.ts';
import { heartbeats, keepSidecars } from './sync/heartbeat.ts';
import { startDeliveries } from './webhooks/deliver.ts';
import { deliveryQueues } from './webhooks/delivery-queue.ts';
import { regressionEmitter } from './webhooks/emit-regression.ts';

/** `npm run build` puts it there, beside the sources and beside the compiled programs. */
const consoleFolder = fileURLToPath(new URL('../console/dist', import.meta.url));

export interface ControlPlaneExtras {
  readonly logger: Logger;
  /** Ends the start early, for example in the middle of waiting for the database. */
  readonly signal: AbortSignal;
  /** Called with each part of the start that takes a while, when it begins. */
  readonly onPhase?: (what: string) => void;
}

export interface RunningControlPlane {
  /** Where a program on this machine reaches it. */
  readonly origin: string;
  /** What a sidecar in the same process listens to. */
  readonly bus: Bus;
  /** See ensureFirstAccount. */
  readonly adminKeyFile: string | null;
  /**
   * How the first owner comes in (docs/people.md). Shown once to the person who starts the program at a
   * terminal, and never logged. Null: the operator's account has users.
   */
  readonly firstOwnerLink: FirstOwnerLink | null;
  /** See EmbeddedPostgres. */
  readonly relocation: string | null;
  /** The key with which a sidecar in the same process connects. */
  sidecarKey(): Promise<string>;
  /** From now on it is not ready and closes each connection after its answer; it goes on serving. */
  startDraining(): void;
  /**
   * Takes no new requests, lets those in flight end (at most `limits.drainMsMax`), and stops all that was
   * started. Never rejects.
   */
  close(): Promise<void>;
}

/**
 * Starts a whole control plane: database, schema, keys, first account, HTTP. Throws StartError for faults
 * that the operator can fix; started parts are stopped first. If the database goes away during the start, the
 * start is repeated from `waitForDatabase` on, at most `storageLimits.databaseStartTries` times.
 */
export async function startControlPlane(
  settings: SettingValues,
  extras: ControlPlaneExtras,
): Promise<RunningControlPlane> {
  const { logger, signal } = extras;
  for (let attempt = 1; ; attempt++) {
    const started = teardown(logger);
    try {
      return await startAll(settings, extras, started);
    } catch (error) {
      await started.run();
      const refusal =
        settings.DATABASE_URL === null ? null : startRefusal(error, addressOf(settings.DATABASE_URL));
      if (refusal !== null) throw refusal;
      const isLast = attempt === storageLimits.databaseStartTries || signal.aborted;
      if (databaseFailure(error) !== 'service_unavailable' || isLast) throw error;
      logger.warn({ err: error, attempt }, 'the database went away during the start, which begins again');
    }
  }
}

async function startAll(
  settings: SettingValues,
  extras: ControlPlaneExtras,
  started: Teardown,
): Promise<RunningControlPlane> {
  const { logger, onPhase } = extras;
  const dataDir = resolve(settings.DATA_DIR);

  const lock = await lockDataDir(dataDir, 'control-plane');
  started.add('lock of DATA_DIR', () => lock.release());
  for (const note of lock.notes) logger.warn({}, note);
  const random = systemRandom();
  const telemetry = await startTelemetry(settings, {
    ...{ serviceName: 'agent-trust-control-plane', random, logger },
  });
  // Stopped after all that still makes spans.
  if (telemetry !== null) started.add('telemetry', () => telemetry.close());

  const { sql, relocation } = await openDatabase(settings, dataDir, extras, started);
  onPhase?.('starting the control plane');
  const tracer = telemetry?.tracer ?? null;
  if (tracer !== null) traceTransactions(sql, tracer);
  // All replicas go by one clock: PostgreSQL's names windows and dates whatever is signed.
  const clock = new CarriedClock(systemClock);
  await readDatabaseClock(sql, clock);
  const { REDIS_URL } = settings;
  const bus = REDIS_URL === null ? inProcessBus(logger) : redisBus({ url: REDIS_URL, logger });
  started.add('bus', () => bus.close());
  publishHintsOf(sql, hintPublisher(bus));
  const replica = replicaOf(sql);
  if (replica !== null) await followChanges(bus, replica);
  const replicaId = Buffer.from(random.bytes(8)).toString('hex');
  const own = { sql, clock, bus, logger, random, ed25519: chooseEd25519(), replicaId };
  const { taken, ...keys } = await openKeys(settings, { ...own, dataDir }, started);

  const host = settings.HOST;
  const port = await concretePort({ host, port: settings.PORT });
  const origin = originOf({ host, port });
  const deps = await makeDeps(settings, { ...own, ...keys, tracer }, { origin, started });
  const { adminKeyFile } = await ensureFirstAccount(deps, { dataDir, adminApiKey: settings.ADMIN_API_KEY });
  await canonicalizeEmails(deps);
  const firstOwnerLink = await keepFirstOwnerLink(deps, dataDir);
  startLoops(deps, started);
  const pulse = startPulse(deps, pulseParts({ ...deps, clock }));
  started.add('pulse', () => pulse.stop());
  if (settings.BACKGROUND_CONVERSIONS) {
    const policies = startKeepingPolicies(deps);
    started.add('policies of gates', () => policies.stop());
  }
  const log = keepLog(deps, regressionEmitter(deps));
  started.add('transparency log', () => log.stop());
  const masterKeys = followMasterKeys(deps, { ...taken, places: sealedPlaces });
  started.add('master keys', () => masterKeys.stop());
  await listen(deps, { host, port }, started);
  exportMetrics(telemetry, deps.metrics, started);
  const facts = { origin, replica: deps.replicaId, ed25519: own.ed25519.name, admin_key_file: adminKeyFile };
  logger.info(facts, 'control plane is listening');
  return {
    origin,
    bus,
    adminKeyFile,
    firstOwnerLink,
    relocation,
    sidecarKey: () => ensureSidecarKey(deps, dataDir),
    startDraining: () => {
      deps.draining.isDraining = true;
    },
    close: () => started.run(),
  };
}

/** What the deps are made of. */
type Base = Pick<
  Deps,
  'sql' | 'bus' | 'logger' | 'random' | 'ed25519' | 'replicaId' | 'tracer' | keyof Keys
> & {
  readonly clock: CarriedClock;
};

type Keys = Pick<Deps, 'signingKeys' | 'sealer'>;

/** Stopped first: what the figures are read from works until then. */
function exportMetrics(telemetry: Telemetry | null, metrics: Registry, started: Teardown): void {
  if (telemetry === null) return;
  telemetry.addLosses(metrics, 'agent_trust_telemetry_lost_total');
  started.add(
    'export of metrics',
    telemetry.report(async () => metrics),
  );
}

/** The master keys, and the signing keys that they unseal. */
async function openKeys(
  settings: SettingValues,
  { dataDir, ...own }: Omit<Base, 'tracer' | keyof Keys> & { readonly dataDir: string },
  started: Teardown,
): Promise<Keys & { readonly taken: Pick<Followed, 'keys' | 'replica'> }> {
  const masterKeys = await masterKeysOf(settings, fileKeySource(dataDir, own));
  started.add('row of this replica', () => leaveReplicas(own));
  const { sealer, replica } = await takeMasterKeys({ ...own, places: sealedPlaces }, masterKeys);
  const signers = signPool({
    threads: Math.min(signingLimits.signThreadsMax, Math.max(1, availableParallelism() - 1)),
    logger: own.logger,
  });
  started.add('signing threads', () => signers.close());
  const signingKeys = await loadSigningKeys({ ...own, signPool: signers, sealer });
  return { signingKeys, sealer, taken: { keys: masterKeys, replica } };
}

async function makeDeps(
  settings: SettingValues,
  base: Base,
  { origin, started }: { readonly origin: string; readonly started: Teardown },
): Promise<Deps> {
  const { sql, clock, logger, random, ed25519, signingKeys } = base;
  const outbound = guardedFetch({ allowPrivate: settings.WEBHOOK_ALLOW_PRIVATE });
  started.add('connections to webhooks', () => outbound.close());
  const metrics = new Registry();
  addProcessMetrics(metrics);
  addBuildInfo(metrics, 'agent_trust_build_info', { version: packageVersion, ed25519: ed25519.name });
  const recordForm = await recordFormOf(sql, { clock, afterMs: settings.RECORDS_V2_AFTER_S * secondMs });
  const appending = { isStopped: false, projections: recordProjections, recordForm };
  const baseUrl = `${settings.PUBLIC_URL ?? origin}/v1`;
  const voids = voidQueue({ sql, clock: systemClock, random, baseUrl, signingKeys, appending, logger });
  started.add('voids of decisions', () => voids.stop());
  const shares = connectionShares(settings.DATABASE_CONNECTIONS);
  const slots = decisionSlots(shares.decisions);
  return {
    ...base,
    metrics,
    appending,
    draining: { isDraining: false },
    shares,
    slots,
    checks: new CheckQueue({ slots, clock }),
    retryWaits: new RetryWaits({ clock, random }, decisionsLimits.retries),
    discoveries: discoveryShare(shares.discoveries),
    voidQueue: voids,
    outbound,
    witnesses: await readWitnessPolicy(settings.LOG_WITNESSES, ed25519),
    mailer: mailerOf(settings),
    consoleFiles: await readConsole(consoleFolder),
    passwords: passwordHasher(random, passwordCost),
    loginAttempts: loginAttempts({ sql, clock, logger }),
    identityProvider: identityProviderOf(settings, { clock, started }),
    sessionTimes: { idleMs: settings.SESSION_IDLE_S * secondMs, totalMs: settings.SESSION_MAX_S * secondMs },
    baseUrl,
    opensToolsToKeys: settings.MCP_API_KEYS,
    gateHost: settings.GATE_HOST ?? originOf({ host: settings.SIDECAR_HOST, port: settings.SIDECAR_PORT }),
  };
}

/** What is asked of the database once a second. */
const pulseParts = (deps: Deps & Pick<Base, 'clock'>): readonly PulsePart<never>[] => [
  clockPart(deps),
  historyPart(deps.sql),
  heartbeats(deps),
  wakingPart('deliveries', deps.sql, waitingIn(deliveryQueues)),
  wakingPart('messages', deps.sql, waitingIn(messageQueues)),
  wakingPart('approvals', deps.sql, dueApprovals),
  wakingPart('holds', deps.sql, dueHolds),
  wakingPart('outcomes', deps.sql, dueReported),
  wakingPart('backtests', deps.sql, dueBacktests),
];

/** What runs beside the requests. */
function startLoops(deps: Deps, started: Teardown): void {
  const loops = {
    'signing keys': followSigningKeys,
    'keys of other issuers': followForeignKeys,
    history: followHistory,
    sidecars: keepSidecars,
    'webhook deliveries': startDeliveries,
    'messages of channels': startChannelMessages,
    approvals: startApprovalSweep,
    holds: startHoldSweep,
    'reported outcomes': startApplyingOutcomes,
    backtests: startBacktests,
    statistics: startStatisticsTrim,
    'used proofs': startProofTrim,
    facts: startFactsTrim,
  };
  for (const [what, start] of Object.entries(loops)) {
    const loop = start(deps);
    started.add(what, () => loop.stop());
  }
  const replica = replicaOf(deps.sql);
  if (replica === null) return;
  const looks = followReplica(replica, deps.metrics);
  started.add('looks at the replica', () => looks.stop());
}

/** Null: none is set. */
function mailerOf({ SMTP_URL, SMTP_FROM }: SettingValues): Mailer | null {
  if (SMTP_URL === null) return null;
  return smtpMailer({
    server: SMTP_URL,
    from: must(SMTP_FROM, 'the settings of a mail server are read together'),
  });
}

/** Null: none is set. Throws StartError for one at an address that is not allowed. */
function identityProviderOf(
  { OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET, OIDC_NAME, OIDC_ALLOW_PRIVATE }: SettingValues,
  { clock, started }: { readonly clock: CarriedClock; readonly started: Teardown },
): IdentityProvider | null {
  if (OIDC_ISSUER === null) return null;
  const outbound = guardedFetch({ allowPrivate: OIDC_ALLOW_PRIVATE });
  started.add('connections to the identity provider', () => outbound.close());
  try {
    outbound.checkTarget(OIDC_ISSUER);
  } catch (error) {
    if (!(error instanceof TargetRefused)) throw error;
    throw new StartError(
      `OIDC_ISSUER cannot be used: ${error.message}. OIDC_ALLOW_PRIVATE=1 allows private addresses and http.`,
      { cause: error },
    );
  }
  const settings = {
    issuer: OIDC_ISSUER,
    clientId: must(OIDC_CLIENT_ID, 'the settings of a provider are read together'),
    clientSecret: must(OIDC_CLIENT_SECRET, 'the settings of a provider are read together'),
    name: OIDC_NAME ?? new URL(OIDC_ISSUER).host,
  };
  return identityProvider(settings, { outbound, clock });
}

/** The given database, or an embedded one, with the schema of this build. */
async function openDatabase(
  settings: SettingValues,
  dataDir: string,
  { logger, signal, onPhase }: ControlPlaneExtras,
  started: Teardown,
): Promise<{ readonly sql: Database; readonly relocation: string | null }> {
  const { DATABASE_URL, DATABASE_CONNECTIONS: connectionsMax } = settings;
  onPhase?.(DATABASE_URL === null ? 'starting the embedded PostgreSQL' : 'connecting to PostgreSQL');
  const embedded = DATABASE_URL === null ? await startEmbeddedPostgres({ dataDir, logger }) : null;
  if (embedded?.relocation) logger.warn({}, embedded.relocation);
  if (embedded !== null) started.add('embedded PostgreSQL', () => embedded.stop());
  const url = must(embedded?.url ?? DATABASE_URL, 'a database is embedded or given');
  const refusals = new Refusals();
  const sql = connect({ url, connectionsMax, onRefused: refusalTeller(refusals, logger) });
  keepRefusals(sql, refusals);
  started.add('database connections', () => sql.end({ timeout: limits.databaseConnectMsMax / 1_000 }));
  await waitForDatabase(sql, { url, logger, signal });
  await tellConnectionRoom(sql, { connections: connectionsMax, logger });
  if (settings.DATABASE_READ_URL !== null)
    openReplica(sql, settings.DATABASE_READ_URL, { settings, logger, started });
  onPhase?.('bringing the tables up to date');
  /** What was begun here last; null as long as another replica is at everything. */
  let at: { readonly file: string; readonly step: number } | null = null;
  let isAgain = false;
  const onStep: OnStep = (file) => {
    at = { file, step: at?.file === file ? at.step + (isAgain ? 0 : 1) : 1 };
    isAgain = false;
  };
  const onWait: OnWait = (file, sessions) => {
    isAgain = true;
    logger.warn({ file, sessions }, 'a migration waits for locks of other sessions and is tried again');
  };
  await tellWhenSlow(
    migrateAt(url, { onStep, onWait, isThroughPooler: passesThroughPooler(sql) }),
    (seconds) =>
      logger.warn(
        { seconds, ...at },
        'the schema of the database is not up to date yet; the start goes on when the migration is over, here or on the replica that is at it',
      ),
  );
  if (settings.BACKGROUND_CONVERSIONS) {
    const conversions = convertInBackground(sql, { logger });
    started.add('conversions in the background', () => conversions.stop());
  }
  return { sql, relocation: embedded?.relocation ?? null };
}

/** It may be away: then reads go to the primary. */
function openReplica(
  primary: Database,
  url: string,
  {
    settings,
    logger,
    started,
  }: { readonly settings: SettingValues; readonly logger: Logger; readonly started: Teardown },
): void {
  const { DATABASE_CONNECTIONS: connectionsMax } = settings;
  const replica = new Replica({
    primary,
    connect: () => connect({ url, setting: 'DATABASE_READ_URL', connectionsMax }),
    clock: systemClock,
    logger,
  });
  readAtReplicaOf(primary, replica, connectionShares(connectionsMax).passedOver);
  started.add('connections to the replica', () => replica.close());
}

/** On a connection of its own, which waits for longer than requests do. */
async function migrateAt(
  url: string,
  {
    isThroughPooler,
    ...options
  }: { readonly onStep: OnStep; readonly onWait: OnWait; readonly isThroughPooler: boolean },
): Promise<void> {
  const sql = connect({
    ...{ url, connectionsMax: 1, silenceMsMax: limits.databaseMigrationMsMax },
    ...{ looksThroughTables: true, isThroughPooler },
  });
  try {
    await migrate(sql, options);
  } finally {
    await sql.end({ timeout: limits.databaseConnectMsMax / 1_000 });
  }
}

async function listen(
  deps: Deps,
  listener: { readonly host: string; readonly port: number },
  started: Teardown,
): Promise<void> {
  const app = build(deps);
  started.add('HTTP', async () => {
    // Cuts off what is still in flight when the time is over.
    const timer = setTimeout(() => app.server.closeAllConnections(), limits.drainMsMax);
    await app.close();
    clearTimeout(timer);
  });
  try {
    await app.listen(listener);
  } catch (error) {
    const { host, port } = listener;
    if (hasCode(error, 'EADDRINUSE')) {
      throw new StartError(
        `PORT ${port} on ${host} is in use by another program. Stop that one, or set PORT.`,
        {
          cause: error,
        },
      );
    }
    const isWrongAddress = ['EADDRNOTAVAIL', 'ENOTFOUND', 'EAI_AGAIN', 'EACCES'].some((code) =>
      hasCode(error, code),
    );
    if (isWrongAddress) {
      throw new StartError(`The control plane cannot listen on HOST ${host}, PORT ${port}.`, {
        cause: error,
      });
    }
    throw error;
  }
}
