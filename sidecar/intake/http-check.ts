import type { RequestWriter } from '../../shared/crypto/request-writer.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { TraceHeaders } from '../../shared/wire/api/trace-context.ts';
import type { BodyHandler, RequestHead } from '../http/server.ts';
import type { Intake } from './intake.ts';
import { type ReadCheck, readCheck } from './read-check.ts';

export interface HttpCheckDeps {
  readonly intake: Intake;
  readonly writer: RequestWriter;
}

/**
 * `POST /v1/gates/:id/check`, and `POST /v1/enforce` where the gate is null. Throws ApiError for a caller
 * that is not served, before the body.
 */
export function httpCheck(
  { intake, writer }: HttpCheckDeps,
  { authorization, traceparent, tracestate }: Pick<RequestHead, 'authorization' | keyof TraceHeaders>,
  about: { readonly gateId: string | null; readonly requestId: RequestId; readonly nowMs: UnixMillis },
): BodyHandler {
  const { gateId, requestId } = about;
  const caller = intake.admit(authorization, about.nowMs);
  return (body, responder) => {
    const moment = intake.moment();
    const head = { requestId, caller, authorization, gateId, traceparent, tracestate };
    const check = intake.open(head, responder, moment.monotonicMs, moment);
    let read: ReadCheck;
    try {
      read = readCheck(body, writer, intake.known);
    } catch (error) {
      intake.refuse(check, error);
      return;
    }
    intake.ask(check, read, moment);
  };
}
