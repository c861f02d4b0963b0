import Fastify, { type FastifyInstance, type FastifyPluginAsync } from 'fastify';
import { compileGate } from '../shared/decision/compile-gate.ts';
import { limits } from '../shared/model/limits.ts';
import { accountRoutes } from './accounts/routes.ts';
import { installAuth, installScopes } from './admission/auth.ts';
import { installPlanLimits } from './admission/plan-limits.ts';
import { apiKeyRoutes } from './api-keys/routes.ts';
import { approvalRoutes } from './approvals/routes.ts';
import { attestationRoutes } from './attestations/routes.ts';
import { auditRoutes } from './audit/routes.ts';
import { authzenRoutes } from './authzen/routes.ts';
import { authzenVocabularyRoutes } from './authzen/vocabulary-routes.ts';
import { backtestRoutes } from './backtests/routes.ts';
import { shadowReportRoutes } from './backtests/shadow-routes.ts';
import { bookRoutes } from './book/routes.ts';
import { catalogOnRecord, publishCatalog } from './catalogs/publish-catalog.ts';
import { catalogRoutes } from './catalogs/routes.ts';
import { channelRoutes } from './channels/routes.ts';
import { consoleRoutes } from './console/serve-console.ts';
import { guideRoutes } from './console/serve-guide.ts';
import { installIdempotency } from './creation/idempotency.ts';
import { proofRoutes } from './decisions/proof-routes.ts';
import { enforcementRoutes } from './decisions/routes.ts';
import { settlementRoutes } from './decisions/settlement-routes.ts';
import { voidShipped } from './decisions/void-settlements.ts';
import type { Deps } from './deps.ts';
import { discoveryRoutes } from './discovery/routes.ts';
import { eventRoutes } from './events/routes.ts';
import { federationRoutes } from './federation/routes.ts';
import { shownTokenRoutes } from './federation/shown-routes.ts';
import { verifyAssertion } from './federation/verify-assertion.ts';
import { findGate } from './gates/gate-store.ts';
import { gateRoutes } from './gates/routes.ts';
import { errorReplies, installErrorReplies } from './http/error-reply.ts';
import { installJsonBody } from './http/json-body.ts';
import { installRequestMetrics } from './http/metrics.ts';
import { installContentEncoding, installSingleHeaders } from './http/request-headers.ts';
import { installRequestId, requestIdMaker } from './http/request-id.ts';
import { installRequestTrace } from './http/request-trace.ts';
import { installValidation } from './http/validation.ts';
import { issuerRoutes } from './issuers/routes.ts';
import { exportedLog } from './log/compare-export.ts';
import { logProofRoutes, logRoutes } from './log/routes.ts';
import { mcpPinRoutes } from './mcp-pins/routes.ts';
import { oauthRoutes } from './oauth/routes.ts';
import { oidcRoutes } from './oidc/routes.ts';
import { installOpenApi } from './openapi/install-openapi.ts';
import { installDatabaseFigures } from './operations/database-figures.ts';
import { operationsRoutes } from './operations/routes.ts';
import { takeShipped } from './outcomes/reported-store.ts';
import { outcomeRoutes } from './outcomes/routes.ts';
import { passkeyRoutes } from './passkeys/routes.ts';
import { passportRoutes, unattendedPassportRoutes } from './passports/routes.ts';
import { credentialRoutes } from './people/credential-routes.ts';
import { peopleRoutes } from './people/routes.ts';
import { sessionRoutes } from './people/session-routes.ts';
import { leaseRoutes } from './quota/routes.ts';
import { receiptRoutes } from './receipts/routes.ts';
import { recoveryRoutes } from './recovery/routes.ts';
import { jwksRoutes, sidecarKeyRoutes, signingKeyRoutes } from './signing-keys/routes.ts';
import { standingApprovalRoutes } from './standing-approvals/routes.ts';
import { statisticsRoutes } from './statistics/routes.ts';
import { snapshotExporter } from './storage/snapshot-export.ts';
import { syncRoutes } from './sync/routes.ts';
import { sidecarRoutes } from './sync/sidecar-routes.ts';
import { installSyncVersion } from './sync/sync-version.ts';
import { templateRoutes } from './templates/routes.ts';
import { toolRoutes } from './tools/routes.ts';
import { offeredScopes } from './tools/tool-list.ts';
import { walletRoutes } from './wallets/routes.ts';
import { regressionEmitter } from './webhooks/emit-regression.ts';
import { webhookRoutes } from './webhooks/routes.ts';

/**
 * The control plane's HTTP surface over its dependencies. Does not listen and starts nothing in the
 * background. `close()` ends what it started; the caller ends the dependencies.
 *
 * Hooks run in this order: request id, trace, headers that come once, authentication, plan limits, scope,
 * content encoding, idempotency key, body, validation, route.
 */
export function build(deps: Deps): FastifyInstance {
  const replies = errorReplies(deps);
  const app = Fastify({
    logger: false,
    genReqId: requestIdMaker(deps),
    requestIdHeader: false,
    bodyLimit: limits.bodyBytesMax,
    requestTimeout: limits.requestReadMsMax,
    http: {
      // Without Host, answer in the specified shape rather than node:http's bare 400; no address of ours
      // depends on it.
      requireHostHeader: false,
      // If headersTimeout exceeds requestTimeout, node:http swaps them, and a body gets the default minute of
      // heads.
      headersTimeout: limits.requestReadMsMax,
      connectionsCheckingInterval: limits.requestReadMsMax / 4,
    },
    routerOptions: { maxParamLength: limits.pathParamCharsMax },
    // The program's stop bounds requests in flight; refusing new ones is the load balancer's task.
    return503OnClosing: false,
    frameworkErrors: replies.reply,
    clientErrorHandler: (_error, socket) => replies.replyToBrokenHttp(socket),
  });
  installErrorReplies(app, replies);
  installRequestId(app);
  installRequestTrace(app, deps);
  installRequestMetrics(app, deps);
  installDatabaseFigures(deps);
  installOpenApi(app, deps);
  installSingleHeaders(app);
  installAuth(app, deps);
  installPlanLimits(app, deps);
  installScopes(app);
  installSyncVersion(app);
  installContentEncoding(app);
  installJsonBody(app);
  installIdempotency(app, deps, replies);
  installValidation(app);

  app.addHook('onSend', async (_request, reply) => {
    if (deps.draining.isDraining) reply.header('connection', 'close');
  });

  app.register(operationsRoutes(deps));
  app.register(jwksRoutes(deps));
  app.register(logRoutes(deps));
  app.register(consoleRoutes(deps.consoleFiles));
  app.register(guideRoutes(deps.consoleFiles));
  app.register(unattendedPassportRoutes(deps), { prefix: '/api' });
  app.register(authzenRoutes(deps));
  app.register(toolRoutes(deps));
  const assertions = { verifyAssertion: verifyAssertion.bind(undefined, deps) };
  app.register(oauthRoutes({ ...deps, offeredScopes, ...assertions }));
  app.register(apiRoutes(deps), { prefix: '/v1' });
  return app;
}

function apiRoutes(deps: Deps): FastifyPluginAsync {
  // One for all exports, which share its bounds.
  const exportSnapshot = snapshotExporter(deps, { ...limits, ...deps.shares.exports });
  return async (v1) => {
    v1.register(accountRoutes(deps));
    v1.register(apiKeyRoutes(deps));
    v1.register(peopleRoutes(deps));
    v1.register(sessionRoutes(deps));
    v1.register(credentialRoutes(deps));
    v1.register(oidcRoutes(deps));
    v1.register(passkeyRoutes(deps));
    v1.register(issuerRoutes(deps));
    v1.register(
      federationRoutes(deps, async (owner, gateId) => {
        const gate = await findGate(deps.sql, owner, gateId);
        return gate === null ? null : compileGate(gate, gate.catalogTerms);
      }),
    );
    v1.register(shownTokenRoutes(deps));
    v1.register(passportRoutes(deps));
    v1.register(templateRoutes(deps));
    v1.register(gateRoutes(deps, { publish: publishCatalog, onRecord: catalogOnRecord }));
    v1.register(backtestRoutes(deps));
    v1.register(shadowReportRoutes(deps));
    v1.register(catalogRoutes(deps));
    v1.register(discoveryRoutes(deps));
    v1.register(enforcementRoutes(deps));
    v1.register(authzenVocabularyRoutes(deps));
    v1.register(approvalRoutes(deps));
    v1.register(outcomeRoutes(deps));
    v1.register(mcpPinRoutes(deps));
    v1.register(standingApprovalRoutes(deps));
    const log = exportedLog(deps);
    const hooks = { voidSettlements: voidShipped(deps), takeOutcomes: takeShipped(deps) };
    v1.register(attestationRoutes(deps, { exportSnapshot, log, ...hooks }));
    v1.register(logProofRoutes(deps));
    v1.register(walletRoutes(deps));
    v1.register(auditRoutes(deps, exportSnapshot, log.readHeads));
    v1.register(statisticsRoutes(deps));
    v1.register(eventRoutes(deps));
    v1.register(webhookRoutes(deps));
    v1.register(channelRoutes(deps));
    v1.register(signingKeyRoutes(deps));
    v1.register(sidecarKeyRoutes(deps));
    v1.register(receiptRoutes(deps, regressionEmitter(deps)));
    v1.register(recoveryRoutes(deps));
    v1.register(bookRoutes(deps));
    v1.register(syncRoutes(deps, regressionEmitter(deps)));
    v1.register(sidecarRoutes(deps));
    v1.register(leaseRoutes(deps));
    v1.register(settlementRoutes(deps));
    v1.register(proofRoutes(deps));
  };
}
