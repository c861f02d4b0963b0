import { describeCases } from '../support/cases/play-at-sidecar.ts';
import { stream } from '../support/cases/ways-in.ts';
import { startTestSidecar } from '../support/sidecar.ts';

describeCases(stream, startTestSidecar);
