import { describeCases } from '../support/cases/play-at-sidecar.ts';
import { check, inProcess } from '../support/cases/ways-in.ts';
import { startTestEmbedded, startTestSidecar } from '../support/sidecar.ts';

describeCases(check, startTestSidecar);
describeCases(inProcess, startTestEmbedded);
