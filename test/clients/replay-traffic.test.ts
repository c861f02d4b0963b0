import { minuteMs } from '../../shared/model/time.ts';
import { describeReplayedTraffic } from './support/replay-traffic.ts';

describeReplayedTraffic({
  decisions: 3_000,
  records: 6_000,
  unjudgedShareMax: 0.04,
  timeoutMs: 5 * minuteMs,
});
