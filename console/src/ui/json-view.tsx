import type { ReactNode } from 'react';
import { visible } from '../../../shared/model/plain-text.ts';
import { Copy } from './copy.tsx';

/** An object as the API answers it. What would disguise text is shown as its code, which JSON reads alike. */
export function JsonView({
  value,
  what = 'JSON',
}: {
  readonly value: unknown;
  readonly what?: string;
}): ReactNode {
  const text = visible(JSON.stringify(value, null, 2));
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
