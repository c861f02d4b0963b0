import { describeCases } from '../support/cases/play-at-sidecar.ts';
import { batch } from '../support/cases/ways-in.ts';
import { startTestSidecar } from '../support/sidecar.ts';

describeCases(batch, startTestSidecar);
