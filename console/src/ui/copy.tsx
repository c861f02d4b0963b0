import { type ReactNode, useEffect, useState } from 'react';

/** Copies `text`, and says that it did. `what` is for those who hear the button. */
export function Copy({
  text,
  what,
  label = 'Copy',
}: {
  readonly text: string;
  readonly what: string;
  readonly label?: string;
}): ReactNode {
  const [said, setSaid] = useState<'' | 'Copied' | 'Not copied'>('');
  useEffect(() => {
    if (said === '') return;
    const timer = setTimeout(() => setSaid(''), 2_000);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => setSaid('Copied'),
      () => setSaid('Not copied'),
    );
  const name = label === 'Copy' ? `Copy ${what}` : `${label}: ${what}`;
  return (
    <button
      type="button"
      className="button small bare"
      onClick={() => void copy()}
      // It holds what is shown, so that somebody who says that is understood.
      aria-label={said === '' ? name : `${said}: ${what}`}
    >
      <span aria-hidden="true">{said === '' ? label : said}</span>
      <span className="sr-only" role="status">
        {said}
      </span>
    </button>
  );
}

/** An id, with a button that copies it. */
export function Id({ id, what = 'id' }: { readonly id: string; readonly what?: string }): ReactNode {
  return (
    <span className="copyable">
      <code>{id}</code>
      <Copy text={id} what={what} />
    </span>
  );
}

/** A secret that is shown once. */
export function Secret({
  label,
  text,
  children,
}: {
  readonly label: string;
  readonly text: string;
  readonly children?: ReactNode;
}): ReactNode {
  return (
    <div className="stack tight">
      <strong>{label}</strong>
      {children === undefined ? null : <span className="soft small">{children}</span>}
      <div className="secret">
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
        <code tabIndex={0}>{text}</code>
        <Copy text={text} what={label} />
      </div>
    </div>
  );
}
