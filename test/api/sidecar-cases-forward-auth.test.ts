import { describeCases } from '../support/cases/play-at-sidecar.ts';
import { forwardAuth, forwardedHeaders } from '../support/cases/ways-in.ts';
import { startTestSidecar } from '../support/sidecar.ts';

describeCases(forwardAuth, (options) =>
  startTestSidecar({ ...options, forwardAuth: { trust: 'none', headers: forwardedHeaders } }),
);
