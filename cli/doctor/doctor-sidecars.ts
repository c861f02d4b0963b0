import { AgentTrust } from '../../clients/node/src/agent-trust.ts';
import { isJsonObject, type JsonObject } from '../../shared/crypto/json-object.ts';
import { messageOf } from '../../shared/errors/message-of.ts';
import { type Finding, fail, ok, unknown, warn } from './doctor-finding.ts';

/** Of `/readyz` of a sidecar what is looked at (docs/sidecar-http.md). */
interface SidecarReadiness {
  readonly status: string;
  readonly draining: boolean;
  readonly control_plane: JsonObject;
  readonly spool: JsonObject;
  readonly blocked_trust_levels: readonly JsonObject[];
}

/** `areNamed`: by the person, so that one that is not there is a fault. */
export async function checkSidecars(
  origins: readonly string[],
  areNamed: boolean,
): Promise<readonly Finding[]> {
  const found = await Promise.all(origins.map((origin) => checkSidecar(origin, areNamed)));
  return found.flat();
}

async function checkSidecar(origin: string, isNamed: boolean): Promise<readonly Finding[]> {
  // `/readyz` is public: the key stays here.
  const client = new AgentTrust({ url: origin, apiKey: 'none', retriesMax: 0 });
  try {
    const answer: unknown = await client.service.ready();
    if (!isSidecar(answer))
      return [fail('sidecar', `${origin} is no sidecar`, 'Name one with --sidecar, by its origin.')];
    return [sidecarFinding(origin, answer), spoolFinding(origin, answer)];
  } catch (error) {
    const next = 'Start it, or name another with --sidecar.';
    const message = `${origin} cannot be reached: ${messageOf(error)}`;
    return [isNamed ? fail('sidecar', message, next) : unknown('sidecar', message, next)];
  } finally {
    client.close();
  }
}

const isSidecar = (answer: unknown): answer is SidecarReadiness =>
  isJsonObject(answer) &&
  isJsonObject(answer['spool']) &&
  isJsonObject(answer['control_plane']) &&
  Array.isArray(answer['blocked_trust_levels']);

function sidecarFinding(origin: string, answer: SidecarReadiness): Finding {
  const { control_plane: plane, blocked_trust_levels: blocked } = answer;
  const levels = blocked.map(({ trust_level }) => String(trust_level)).join(', ');
  if (answer.draining) return warn('sidecar', `${origin} is about to stop`, 'Send it no requests.');
  if (answer.status !== 'ready') {
    const why = String(plane['must_not_serve'] ?? plane['last_problem'] ?? 'it has no state yet');
    return fail(
      'sidecar',
      `${origin} is not ready: ${why}`,
      'Look at CONTROL_PLANE_URL, SIDECAR_API_KEY and its log.',
    );
  }
  if (levels !== '')
    return fail(
      'sidecar',
      `${origin} blocks all gates of ${levels}: its state is stale`,
      'Restore the connection to the control plane.',
    );
  if (plane['connected'] !== true)
    return warn(
      'sidecar',
      `${origin} is not connected: ${String(plane['last_problem'] ?? 'yet')}`,
      'Look at CONTROL_PLANE_URL and its log.',
    );
  return plane['clock_is_off'] === true
    ? warn(
        'sidecar',
        `${origin}: its clock is ${String(plane['clock_offset_ms'])} ms off`,
        'Run NTP on its machine.',
      )
    : ok('sidecar', `${origin} is ready and connected`);
}

function spoolFinding(origin: string, { spool }: SidecarReadiness): Finding {
  const error = spool['last_error'];
  const damaged = Number(spool['damaged_places']) + Number(spool['voided_records']);
  if (spool['full'] === true)
    return fail(
      'spool',
      `${origin}: it is full, and every request is refused`,
      'Make room in DATA_DIR, and restore the way to the control plane.',
    );
  if (typeof error === 'string')
    return fail('spool', `${origin}: ${error}`, 'Look at the disk of DATA_DIR, and at the control plane.');
  if (damaged > 0)
    return warn(
      'spool',
      `${origin}: ${damaged} places were damaged or taken back`,
      'Look at its disk and its log.',
    );
  return ok(
    'spool',
    `${origin}: ${String(spool['bytes'])} bytes wait; shipping: ${String(spool['shipping'])}`,
  );
}
