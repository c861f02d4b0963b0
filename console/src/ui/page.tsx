import { Link } from '@tanstack/react-router';
import { type ReactNode, useEffect, useState } from 'react';
import { AgentTrustError } from '../api/client.ts';
import { Copy } from './copy.tsx';
import { useIsAtField } from './form.tsx';
import { PageTools } from './page-tools.tsx';

/** The head of a page, which also names the tab of the browser. */
export function PageHead({
  title,
  children,
  actions,
  above,
}: {
  readonly title: string;
  readonly children?: ReactNode;
  readonly actions?: ReactNode;
  /** Where this page is: links to the pages above it. */
  readonly above?: { readonly to: string; readonly label: string };
}): ReactNode {
  useEffect(() => {
    document.title = `${title} · agent-trust`;
  }, [title]);
  return (
    <div className="page-head">
      <div>
        {above === undefined ? null : (
          <nav className="crumbs" aria-label="Breadcrumb">
            <Link to={above.to}>{above.label}</Link>
            <span aria-hidden="true">/</span>
          </nav>
        )}
        <h1>{title}</h1>
        {children === undefined ? null : <div className="soft">{children}</div>}
      </div>
      <div className="row">
        {actions}
        <PageTools />
      </div>
    </div>
  );
}

export function Card({
  title,
  children,
  actions,
}: {
  readonly title?: string;
  readonly children: ReactNode;
  readonly actions?: ReactNode;
}): ReactNode {
  return (
    <section className="card" {...(title === undefined ? {} : { 'aria-label': title })}>
      {title === undefined ? null : (
        <div className="row between">
          <h2>{title}</h2>
          {actions}
        </div>
      )}
      {children}
    </section>
  );
}

/** The text of an empty list: why, and what to do next. */
export function Empty({
  title,
  children,
  action,
}: {
  readonly title: string;
  readonly children: ReactNode;
  readonly action?: ReactNode;
}): ReactNode {
  return (
    <div className="empty">
      <h2>{title}</h2>
      <p>{children}</p>
      {action}
    </div>
  );
}

/** Appears only when waiting takes long enough to be noticed. */
export function Waiting({ what }: { readonly what: string }): ReactNode {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 300);
    return () => clearTimeout(timer);
  }, []);
  return (
    <p className="soft" role="status" data-waiting={what}>
      {isLate ? `Loading ${what}…` : ''}
    </p>
  );
}

const nextSteps: Readonly<Record<string, string>> = {
  connection_failed: 'Check your network, or whether the service is running; then try again.',
  timeout: 'The service is slow or overloaded. Try again in a moment.',
  insufficient_scope: 'Your role does not allow this. An owner or admin can change your role under People.',
  rate_limited: 'The limit of the plan is used up. Wait for the next minute, or ask for a larger plan.',
  overloaded: 'Nothing was changed. Try again in a moment.',
  service_unavailable: 'Nothing was changed. The database of the service cannot be reached; try again soon.',
  precondition_failed:
    'Somebody else changed this while you edited it. Reload it and make your change again.',
  approval_already_resolved: 'Somebody else was faster, or the time to decide is over.',
  agent_id_conflict: 'Use another agent id, or revoke the passport that this agent has.',
};

/** An error in words, what to do about it, and the id by which the operator finds the request. */
export function Problem({
  error,
  onRetry,
}: {
  readonly error: unknown;
  readonly onRetry?: (() => void) | undefined;
}): ReactNode {
  const isAtField = useIsAtField(error);
  const isKnown = error instanceof AgentTrustError;
  if (isAtField) return null;
  const isField = isKnown && error.param !== null;
  const isGone = isKnown && error.http_status === 404;
  return (
    <div className="notice bad" role="alert">
      <strong>
        {isKnown ? error.message : 'Something went wrong in this page.'}
        {isField ? ` (${error.param})` : null}
      </strong>
      <span>
        {(isKnown ? nextSteps[error.code] : undefined) ??
          (isField
            ? 'Correct the field and try again.'
            : isGone
              ? 'It may have been removed, or belong to another account or to the other mode.'
              : 'Try again. If it stays, tell the operator the request id.')}
      </span>
      {isKnown && error.request_id !== null ? (
        <span className="copyable small soft">
          Request id <code>{error.request_id}</code>
          <Copy text={error.request_id} what="request id" />
        </span>
      ) : null}
      {onRetry === undefined || isGone ? null : (
        <div>
          <button type="button" className="button small" onClick={onRetry}>
            Try again
          </button>
        </div>
      )}
    </div>
  );
}

export function Facts({ items }: { readonly items: readonly (readonly [string, ReactNode])[] }): ReactNode {
  return (
    <dl className="facts">
      {items.map(([name, value]) => (
        <div key={name} style={{ display: 'contents' }}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Tabs({
  label,
  tabs,
}: {
  readonly label: string;
  readonly tabs: readonly { readonly name: string; readonly label: string; readonly isCurrent: boolean }[];
}): ReactNode {
  return (
    <nav className="tabs" aria-label={label}>
      {tabs.map(({ name, label: text, isCurrent }) => (
        <Link
          key={name}
          to="."
          activeOptions={{ exact: true, includeSearch: true }}
          search={name === '' ? {} : { tab: name }}
          {...(isCurrent ? { 'aria-current': 'page' as const } : { 'aria-current': undefined })}
        >
          {text}
        </Link>
      ))}
    </nav>
  );
}
