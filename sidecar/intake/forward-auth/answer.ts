import type { PassportId } from '../../../shared/model/ids.ts';
import { secondMs } from '../../../shared/model/time.ts';
import type { DecisionAnswer } from '../../../shared/wire/api/decision.ts';
import type { CheckReply, ErrorReply } from '../../decide/replies.ts';
import type { Reply } from '../../http/server.ts';

type Headers = NonNullable<Reply['headers']>;

/** What a proxy reads. Its `decision` is NONE where nothing was decided and nothing recorded. */
interface GateHeaders {
  readonly decision: DecisionAnswer['decision'] | 'NONE';
  /** Of the decision; of NONE the code of the error, or what is wrong with the passport that was shown. */
  readonly reason: string;
  readonly attestationId: string;
  readonly passportId: string;
}

const gateHeaders = ({ decision, reason, attestationId, passportId }: GateHeaders): Headers => [
  ['x-gate-decision', decision],
  ['x-gate-reason', reason],
  ['x-attestation-id', attestationId],
  ['x-passport-id', passportId],
];

/**
 * The answer of `check` as the status and headers of contract §15; the body stays. `passportId`: of a
 * decision, if the passport verified. `detail`: a more precise sentence for the reason `permission_missing`.
 */
export function decisionAnswer(
  reply: CheckReply,
  passportId: PassportId | null,
  detail: string | null,
): Reply {
  if ('error' in reply) return errorAnswer(reply);
  const { answer: decided } = reply;
  const { decision, reason } = decided;
  const status = statusOf(decided);
  const headers: Headers = [
    noStore,
    ...gateHeaders({
      decision,
      reason: reason ?? '',
      attestationId: decided.attestation_id ?? '',
      passportId: passportId ?? '',
    }),
    ...(status === 401 ? [challenge] : []),
    ...retryAfter(decided),
  ];
  const body =
    detail !== null && reason === 'permission_missing' ? JSON.stringify({ ...decided, detail }) : reply.body;
  return replyOf(status, body, headers, reply);
}

/** An answer of the same request. */
const replyOf = (status: number, body: string, headers: Headers, { requestId }: Reply): Reply => ({
  status,
  body,
  headers,
  ...(requestId === undefined ? {} : { requestId }),
});

const noStore = ['cache-control', 'no-store'] as const;
const challenge = ['www-authenticate', 'Passport'] as const;

/** Troubles of the service, and nothing that the agent could mend. */
const ours: ReadonlySet<string> = new Set(['quota_unavailable', 'state_stale']);

function statusOf({ decision, reason }: DecisionAnswer): 200 | 401 | 403 | 503 {
  if (decision === 'PERMIT') return 200;
  if (decision === 'BLOCK' && ours.has(reason)) return 503;
  return decision === 'BLOCK' && reason.startsWith('passport_') ? 401 : 403;
}

function retryAfter(decided: DecisionAnswer): Headers {
  if (decided.decision !== 'BLOCK') return [];
  const afterMs = decided.retry.after_ms ?? (ours.has(decided.reason) ? secondMs : null);
  return afterMs === null ? [] : [['retry-after', String(Math.ceil(afterMs / secondMs))]];
}

/**
 * An error with the same headers, and never with a passport: whether that is verified by then depends on what
 * the sidecar remembers. `passport`: what is wrong with the one that was shown.
 */
export function errorAnswer(reply: ErrorReply, passport?: 'passport_missing' | 'passport_ambiguous'): Reply {
  const reason = passport ?? reply.error.code;
  const others = (reply.headers ?? []).filter(
    ([name]) => passport === undefined || name !== 'www-authenticate',
  );
  return {
    ...reply,
    headers: [
      ...others,
      ...(passport === undefined ? [] : [challenge]),
      ...gateHeaders({ decision: 'NONE', reason, attestationId: '', passportId: '' }),
    ],
  };
}
