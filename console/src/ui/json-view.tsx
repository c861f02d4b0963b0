import type { ReactNode } from 'react';
import { Copy } from './copy.tsx';

/** An object as the API answers it. */
export function JsonView({
  value,
  what = 'JSON',
}: {
  readonly value: unknown;
  readonly what?: string;
}): ReactNode {
  const text = JSON.stringify(value, null, 2);
  return (
    <div className="stack tight">
      <div className="actions">
        <Copy text={text} what={what} />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <pre tabIndex={0}>{text}</pre>
    </div>
  );
}
