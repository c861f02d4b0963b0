import { hourMs } from '../../shared/model/time.ts';
import { isLong } from '../support/runs.ts';
import { describeReplayedTraffic } from './support/replay-traffic.ts';

// A quarter of an hour on a machine of two cores that has nothing else to do.
describeReplayedTraffic({
  decisions: isLong ? 50_000 : 0,
  records: 1_000_000,
  unjudgedShareMax: 0.01,
  timeoutMs: 2 * hourMs,
});
