import type { Attestation } from '../model/attestation.ts';
import type { UnixMillis } from '../model/time.ts';
import { type AttestationAnswer, renderAttestation } from '../wire/evidence/attestation.ts';
import type { BrokenAnswer } from './broken-chains.ts';
import type { ExportWriter } from './export.ts';

/** Every member below is in this version of the Open Cybersecurity Schema Framework, schema.ocsf.io. */
const ocsfVersion = '1.8.0';

/** Of OCSF: `x_id` of a value that has no number there, and stands in `x` as text. */
const other = 99;

/**
 * The records of an export as OCSF events, one in each line, in the order of jsonl: class API Activity with
 * the profile security_control. `unmapped` is the record as it is signed, so nothing is lost; what the
 * record does not say, such as the address of the agent, is not made up. Cannot be verified: it has neither
 * headers of chains nor an end.
 *
 * Each broken chain has a Base Event of severity Critical at the end.
 */
export function ocsfWriter(): ExportWriter {
  let createdAtMs = 0 as UnixMillis;
  return {
    manifest: (manifest) => {
      createdAtMs = manifest.createdAtMs;
      return '';
    },
    chain: () => '',
    record: (attestation) => line(eventOf(attestation)),
    facts: () => '',
    attachment: () => '',
    end: ({ broken, brokenUnnamed }) =>
      broken
        .map((each) => line(brokenEvent(createdAtMs, brokenText(each), each)))
        .concat(
          brokenUnnamed === 0
            ? []
            : line(
                brokenEvent(createdAtMs, `${brokenUnnamed} more chains are not whole in the database.`, {}),
              ),
        )
        .join(''),
  };
}

const line = (event: object): string => `${JSON.stringify(event)}\n`;

function eventOf(attestation: Attestation): object {
  const record = renderAttestation(attestation);
  const { gate_id, passport_id, permission_key, policy_hash, reason } = record;
  const activity = record.resolution === null ? 'Decide' : capital(record.resolution);
  return {
    activity_id: other,
    activity_name: activity,
    category_name: 'Application Activity',
    category_uid: 6,
    class_name: 'API Activity',
    class_uid: 6003,
    type_name: 'API Activity: Other',
    type_uid: 600_399,
    time: attestation.timestampMs,
    severity: record.decision === 'BLOCK' ? 'Low' : 'Informational',
    severity_id: record.decision === 'BLOCK' ? 2 : 1,
    message: messageOf(record),
    ...outcomeOf(record),
    ...(reason !== null && { status_code: reason }),
    metadata: {
      version: ocsfVersion,
      product,
      profiles: ['security_control'],
      uid: record.id,
      log_name: record.chain_id,
      ...(record.source_account !== undefined && { tenant_uid: record.source_account }),
      ...(correlated(record) !== null && { correlation_uid: correlated(record) }),
      labels: [record.test ? 'test' : 'live'],
    },
    // An actor has a name or an id. A token that does not verify has neither.
    actor: passport_id === null ? { app_name: 'unverified' } : { app_uid: passport_id },
    api: {
      operation: permission_key ?? 'unspecified',
      ...(gate_id !== null && { service: { uid: gate_id } }),
    },
    src_endpoint: passport_id === null ? { name: 'unknown' } : { uid: passport_id },
    ...(record.domain != null && { dst_endpoint: { domain: record.domain } }),
    ...(gate_id !== null && { resources: [{ uid: gate_id, type: 'gate', role: 'Target', role_id: 1 }] }),
    ...(policy_hash != null && { policy: { uid: policy_hash, type: 'gate', is_applied: true } }),
    unmapped: record,
  };
}

const product = { name: 'agent-trust', vendor_name: 'agent-trust' };

/**
 * Status, action and disposition. A record that resolves an earlier one has all three as Other: it is no
 * decision of its own, so counts by disposition count decisions.
 */
function outcomeOf({ decision, resolution }: AttestationAnswer): object {
  if (resolution === null && decision === 'PERMIT') return allowed;
  if (resolution === null && decision === 'BLOCK') return blocked;
  const text = resolution === null ? 'Suspended' : capital(resolution);
  return {
    status: text,
    status_id: other,
    action: text,
    action_id: other,
    disposition: text,
    disposition_id: other,
  };
}

const allowed = {
  status: 'Success',
  status_id: 1,
  action: 'Allowed',
  action_id: 1,
  disposition: 'Allowed',
  disposition_id: 1,
};

const blocked = {
  status: 'Failure',
  status_id: 2,
  action: 'Denied',
  action_id: 2,
  disposition: 'Blocked',
  disposition_id: 2,
};

/** By what a collector finds the records of one matter together. */
const correlated = ({ refers_to, approval_id }: AttestationAnswer): string | null =>
  refers_to ?? approval_id ?? null;

function messageOf({
  decision,
  gate_id,
  passport_id,
  permission_key,
  reason,
  resolution,
}: AttestationAnswer) {
  const what = resolution === null ? decision : `${decision} ${resolution}`;
  const why = reason === null ? '' : ` (${reason})`;
  const where = gate_id === null ? '' : ` at ${gate_id}`;
  return `${what}${why}: ${permission_key ?? 'no permission named'}${where}, ${passport_id ?? 'no verified passport'}`;
}

const brokenText = ({ chain_id, fault, sequence }: BrokenAnswer): string =>
  `Chain ${chain_id} is not whole in the database: ${fault} at sequence ${sequence}.`;

const brokenEvent = (time: UnixMillis, message: string, unmapped: object): object => ({
  activity_id: other,
  activity_name: 'Broken chain',
  category_name: 'Uncategorized',
  category_uid: 0,
  class_name: 'Base Event',
  class_uid: 0,
  type_name: 'Base Event: Other',
  type_uid: other,
  time,
  severity: 'Critical',
  severity_id: 5,
  message,
  metadata: { version: ocsfVersion, product, log_name: 'export' },
  unmapped,
});

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);
