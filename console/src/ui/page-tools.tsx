import { useMatches } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useAddress, useId } from '../api/address.ts';
import { curlOf, pageSources } from '../page-sources.ts';
import { Copy } from './copy.tsx';
import { GuideLink } from './guide-link.tsx';

/** The request behind this page as a command, and its page in the guide. */
export function PageTools(): ReactNode {
  const path = String(useMatches({ select: (matches) => matches.at(-1)?.fullPath ?? '' }));
  const { search } = useAddress();
  const id = useId();
  const source = pageSources[path];
  if (source === undefined) return null;
  const request = source.request({ id, search });
  return (
    <div className="row page-tools">
      {request === null ? null : (
        <Copy text={curlOf(location.origin, request)} what="this page" label="Copy as curl" />
      )}
      <GuideLink page={source.guide} className="button small bare">
        Guide
      </GuideLink>
    </div>
  );
}
