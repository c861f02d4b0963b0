import { afterEach } from 'vitest';
import { stopAll } from '../support/peers/server-under-test.ts';
import { describeServerAborts } from './server-aborts.ts';

afterEach(stopAll);

describeServerAborts({ every: 17, rounds: 3 });
