import { describeCases } from '../support/cases/play-at-sidecar.ts';
import { evaluation, evaluations } from '../support/cases/ways-in.ts';
import { startTestSidecar } from '../support/sidecar.ts';

describeCases(evaluation, startTestSidecar);
describeCases(evaluations, startTestSidecar);
