import { canonicalJson } from '../../crypto/canonical-json.ts';
import { textHash } from '../../crypto/content-hash.ts';
import type { Catalog } from '../../model/catalog.ts';
import type { Gate } from '../../model/gate.ts';
import { renderConstraints } from './constraints.ts';
import { renderGateRoutes } from './gate-routes.ts';

/** The newest version of a gate's catalog. */
export type CatalogVersion = Pick<Catalog, 'version' | 'contentHash'>;

/** Everything that decides at a gate. `catalog` null: none published. */
export interface Policy extends Pick<Gate, 'trustLevel' | 'constraints' | 'routes'> {
  readonly catalog: CatalogVersion | null;
}

/** The RFC 8785 form of a policy (contract §9), over which `policyHash` is made. */
export const policyText = ({ trustLevel, constraints, routes, catalog }: Policy): string =>
  canonicalJson({
    catalog_hash: catalog?.contentHash ?? null,
    catalog_version: catalog?.version ?? null,
    constraints: renderConstraints(constraints),
    routes: renderGateRoutes(routes),
    trust_level: trustLevel,
  });

/** `sha256:` + hex. Gates with the same policy have the same hash. */
export const policyHash = (policy: Policy): string => textHash(policyText(policy));
