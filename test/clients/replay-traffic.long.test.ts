import { hourMs } from '../../shared/model/time.ts';
import { isLong } from '../support/base/runs.ts';
import { describeReplayedTraffic } from './support/replay-traffic.ts';

// Nine minutes on a busy machine of two cores, four of them for the million.
describeReplayedTraffic({
  decisions: isLong ? 50_000 : 0,
  records: 1_000_000,
  unjudgedShareMax: 0.01,
  timeoutMs: 2 * hourMs,
});
