import { describeCases } from '../support/cases/play-at-sidecar.ts';
import {
  batch,
  check,
  evaluation,
  evaluations,
  forwardAuth,
  forwardedHeaders,
  inProcess,
  stream,
} from '../support/cases/ways-in.ts';
import { startTestEmbedded, startTestSidecar } from '../support/sidecar.ts';

describeCases([
  {
    ways: [check, batch, stream, evaluation, evaluations, forwardAuth],
    start: (options) =>
      startTestSidecar({ ...options, forwardAuth: { trust: 'none', headers: forwardedHeaders } }),
  },
  { ways: [inProcess], start: startTestEmbedded },
]);
