import { type AgentTrust, responseOf } from '../../clients/node/src/agent-trust.ts';
import { ForbiddenError } from '../../clients/node/src/errors.ts';
import type { Readiness } from '../../clients/node/src/generated/api.ts';
import { findRecordFault, type Head } from '../../clients/node/src/verify/record.ts';
import { parseApiKey } from '../../shared/crypto/api-key.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { keyset, parseJwks } from '../../shared/crypto/keyset.ts';
import { messageOf } from '../../shared/errors/message-of.ts';
import { limits } from '../../shared/model/limits.ts';
import { secondMs } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { scopesOf } from '../base/log-in.ts';
import { exportCrypto } from '../verify/export-crypto.ts';
import { type Finding, fail, ok, unknown, warn } from './doctor-finding.ts';

/** What the control plane says of itself. */
export async function checkService(
  client: AgentTrust,
  origin: string,
): Promise<{ readonly readiness: Readiness | null; readonly findings: readonly Finding[] }> {
  let readiness: Readiness;
  try {
    readiness = await client.service.ready();
  } catch (error) {
    const next = 'Start it, or name it: AGENT_TRUST_URL, --profile.';
    return {
      readiness: null,
      findings: [fail('service', `${origin} cannot be reached: ${messageOf(error)}`, next)],
    };
  }
  const findings = [
    serviceFinding(readiness, origin),
    clockFinding(readiness),
    databaseFinding(readiness),
    sidecarsFinding(readiness),
    pushFinding(readiness),
    historyFinding(readiness),
    logFinding(readiness),
    ...(readiness.bad_signing_keys === 0
      ? []
      : [
          fail(
            'keys',
            `${readiness.bad_signing_keys} rows of signing_keys were not written by a holder of MASTER_KEY`,
            'Look into the log of the control plane, which names them, and at who can write to the database.',
          ),
        ]),
  ];
  return { readiness, findings };
}

function serviceFinding({ status, draining, appending }: Readiness, origin: string): Finding {
  if (appending === 'stopped')
    return fail('service', `${origin} has stopped appending records`, 'Read its log, and restart it.');
  if (draining) return warn('service', `${origin} is about to stop`, 'Ask another replica.');
  return status === 'ready'
    ? ok('service', `${origin} is ready`)
    : fail('service', `${origin} is not ready`, 'See the lines below, and its log.');
}

/** The header has whole seconds, and the answer was on its way. */
const clockMsMax = 3 * secondMs;

function clockFinding(readiness: Readiness): Finding {
  const { date } = responseOf(readiness).headers;
  const offsetMs = typeof date === 'string' ? systemClock.now() - Date.parse(date) : 0;
  const ofSidecars = readiness.sidecars?.clock_offset_ms_max ?? 0;
  const next = 'Run NTP on both machines.';
  if (Math.abs(offsetMs) > clockMsMax)
    return warn(
      'clocks',
      `this machine and the service differ by ${Math.round(offsetMs / secondMs)} s`,
      next,
    );
  if (ofSidecars > limits.clockOffsetMsMax)
    return warn(
      'clocks',
      `a sidecar is ${ofSidecars} ms off the database`,
      'Run NTP on the machines of the sidecars.',
    );
  return ok('clocks', `this machine agrees with the service; sidecars are at most ${ofSidecars} ms off`);
}

function databaseFinding(readiness: Readiness): Finding {
  const { database, database_connections_max: max, database_connections_refused: refused } = readiness;
  if (database === 'unreachable')
    return fail(
      'database',
      'the control plane cannot reach it',
      'Start PostgreSQL, or look at the network between them.',
    );
  if (database === 'not_migrated')
    return fail(
      'database',
      'its tables are not those of this version',
      'Start a control plane of this version: it migrates them.',
    );
  return refused === 0
    ? ok('database', `the control plane reaches it, with up to ${max} connections`)
    : warn(
        'database',
        `it has refused ${refused} connections`,
        'Raise max_connections, or lower DATABASE_CONNECTIONS.',
      );
}

const sidecarsFinding = ({ sidecars }: Readiness): Finding => {
  if (sidecars === null)
    return unknown('sidecars', 'not known while the database is away', 'See the line of the database.');
  return sidecars.connected > 0
    ? ok('sidecars', `${sidecars.connected} connected`)
    : warn(
        'sidecars',
        'none is connected',
        'Start one (docs/operate/deploy.md), or look at its CONTROL_PLANE_URL.',
      );
};

const pushFinding = ({ push, push_lost: lost }: Readiness): Finding =>
  push === 'connected'
    ? ok(
        'push',
        lost === 0 ? 'changes are pushed to sidecars' : `changes are pushed; ${lost} were lost and pulled`,
      )
    : warn(
        'push',
        'changes are not pushed, and reach sidecars within 2 s',
        'Look at Redis and REDIS_URL (docs/redis.md).',
      );

const historyFinding = ({ history: { state, missing } }: Readiness): Finding =>
  state === 'whole'
    ? ok('history', 'the database has all that sidecars were told')
    : fail(
        'history',
        `the database went back: it lacks ${missing?.changes ?? '?'} changes, ${missing?.records ?? '?'} records and ${missing?.entries ?? '?'} entries of the log`,
        'Read docs/operate/backup-and-restore.md, then run: agent-trust recover',
      );

function logFinding({ log }: Readiness): Finding {
  const next = 'Read docs/log.md, and the log of the control planes.';
  if (log.state === 'regressed') return fail('log', 'history went back, so nothing is signed', next);
  if (log.state === 'unconfirmed')
    return warn('log', 'no quorum of its witnesses has confirmed the tree, so nothing is signed', next);
  const silent = log.witnesses.filter(({ fault }) => fault !== null);
  if (silent.length > 0)
    return warn(
      'log',
      `not every witness cosigns: ${silent.map(({ name, fault }) => `${name} (${fault})`).join(', ')}`,
      next,
    );
  return ok(
    'log',
    `${log.size} entries${log.witnesses.length === 0 ? ', without witnesses' : `, ${log.witnessed_size} of them witnessed`}`,
  );
}

/** Whether the service knows the key, and what it may do. */
export async function checkKey(origin: string, key: string): Promise<Finding> {
  try {
    const scopes = await scopesOf(origin, key);
    return ok('key', `${parseApiKey(key)?.mode} key, with ${scopes.join(' ')}`);
  } catch (error) {
    return fail('key', messageOf(error), 'Log in with another key: agent-trust login.');
  }
}

/**
 * The newest records: hash and signature of each, and the links among those of a chain that follow each
 * other. The whole is for `attestations verify`.
 */
export async function checkRecords(client: AgentTrust): Promise<Finding> {
  try {
    const page = await client.attestations.list({ limit: limits.pageItemsMax });
    const crypto = exportCrypto(keyset(chooseEd25519(), parseJwks(await client.signingKeys.jwks())));
    const heads = new Map<string, Head>();
    for (const record of page.attestations.toSorted((one, other) => one.sequence - other.sequence)) {
      const before = heads.get(record.chain_id) ?? null;
      const previous = before?.sequence === record.sequence - 1 ? before : null;
      const fault = await findRecordFault(record, previous, crypto);
      if (fault !== null) {
        return fail(
          'records',
          `record ${record.id} of chain ${record.chain_id} does not verify: ${fault}`,
          'Export all, and verify: agent-trust attestations export, attestations verify.',
        );
      }
      heads.set(record.chain_id, { sequence: record.sequence, hash: record.hash });
    }
    return ok(
      'records',
      `the newest ${page.attestations.length}, in ${heads.size} chain${heads.size === 1 ? '' : 's'}, verify`,
    );
  } catch (error) {
    if (error instanceof ForbiddenError)
      return unknown('records', 'the key may not read records', 'Use a key with attestations:read.');
    return fail('records', messageOf(error), 'See the lines above.');
  }
}
