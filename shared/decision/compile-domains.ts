/** A list of allowed domains; a look-up costs one probe per label of the host name. */
export interface CompiledDomains {
  readonly hosts: ReadonlySet<string>;
  /** `example.com` for the pattern `*.example.com`. */
  readonly parents: ReadonlySet<string>;
}

const wildcard = '*.';

/** `patterns` are canonical, as `Constraints.allowedDomains` holds them. An empty list allows nothing. */
export function compileDomains(patterns: readonly string[]): CompiledDomains {
  const hosts = new Set<string>();
  const parents = new Set<string>();
  for (const pattern of patterns) {
    if (pattern.startsWith(wildcard)) parents.add(pattern.slice(wildcard.length));
    else hosts.add(pattern);
  }
  return { hosts, parents };
}

/**
 * Whether the canonical host name is named, or lies below a wildcard at any depth. `*.example.com` does not
 * allow `example.com` itself, as in certificates (RFC 9525 §6.3), but other than there it allows
 * `a.b.example.com`.
 */
export function allowsDomain(domains: CompiledDomains, host: string): boolean {
  if (domains.hosts.has(host)) return true;
  if (domains.parents.size === 0) return false;
  for (let dot = host.indexOf('.'); dot !== -1; dot = host.indexOf('.', dot + 1)) {
    if (domains.parents.has(host.slice(dot + 1))) return true;
  }
  return false;
}
