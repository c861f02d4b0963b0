import { afterEach, describe, expect, it } from 'vitest';
import { ApiError } from '../../../shared/errors/api-error.ts';
import type { RequestId } from '../../../shared/model/ids.ts';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { Answers } from '../../../sidecar/decide/answers.ts';
import { keptLog } from '../../support/base/kept-log.ts';

const requestId = 'req_1' as RequestId;
const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';

describe('the answer to an internal error', () => {
  let answers: Answers | null = null;
  afterEach(() => answers?.stop());

  it('is logged with the trace of its request, where that names one', () => {
    const logger = keptLog();
    answers = new Answers({ clock: systemClock, logger });
    answers.failure(new Error('ours'), requestId, `00-${traceId}-00f067aa0ba902b7-01`);
    answers.failure(new Error('ours'), requestId, 'not a trace');
    answers.failure(new Error('ours'), requestId);
    answers.failure(new ApiError('overloaded'), requestId, `00-${traceId}-00f067aa0ba902b7-01`);
    const traces = logger.lines.map(({ fields }) => ('trace_id' in fields ? fields.trace_id : null));
    expect(traces).toEqual([traceId, null, null]);
  });
});
