/**
 * The letters of Unicode's confusables.txt (UTS 39, version 17.0.0) whose prototype is made of the characters
 * of tool names: `<prototype>:<code points>`, each code point as its distance from the one before, in base
 * 36. Derived from data of Unicode, Inc., used under the Unicode License V3.
 */
export const confusableLetters =
  '-:k7,sd,4zg,1,1,1,1c,cv,138,10k,1,15el -.:wla .:19c,40,h,1,4yq,q8k,7q,jsy,13bx ..:6cl,q8l ' +
  '...:6cm 2:br,g1,3br,sqt,4r,2z,1lzs,25a,a,a,a,a,73u 2.:77t 2O.:78b 3:c7,2t,e3,5l,w9,ao,6nn,14,8,' +
  'o7y,1t,mcf,h2p,iig,103,157,a,a,a,a,73u 3.:77u 4:3wu,1fj5,zlx,25a,a,a,a,a,73u 4.:77v 5:cc,1j3z,' +
  'zlm,25a,a,a,a,a,73u 5.:77w 6:rw,1x,33x,4x0,1,9,1am1,zkx,25a,a,a,a,a,73u 6.:77x 7:1fiq,3xw,zld,' +
  '10b,14z,a,a,a,a,73u 7.:77y 8:f6,1,1jb,3k,49,1d07,13vi,25a,a,a,a,a,3bh,3sd 8.:77z 9:1yl,3e,75,ed,' +
  '671,1,o83,mda,w,a,zkz,25a,a,a,a,a,73u 9.:780 A:pd,3j,32y,ez,sa1,htf,ov,lgg,ihi,1ey,1g,1g,1g,1g,' +
  '1g,1g,1g,1g,1g,1g,1g,1g,1k,1m,1m,1m,1m AA:x0y AE:5i,su AO:x10 AR:2rd3 AU:x12 AV:x14,2 AY:x18 ' +
  'B:pe,3k,34y,eb,27p,28m,nri,kk,h9q,o0,v,2o,13va,1ey,1g,1g,2w,1g,1g,1g,1g,1g,1g,1g,1g,1k,1m,1m,1m,' +
  '1m C:s9,14,33y,2lf,17,1s,27r,nqu,hu1,ov,2o,7n,7b,3wt,9,zja,1ey,1g,1g,1g,1g,4c,1g,1g,1g,1g,1g,' +
  '6hm D:3vk,fy,c,28r,15,pyd,1mh2,1ey,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g DZ:dt Dz:du E:ph,3k,32v,' +
  '2o4,cv,20q,nnb,hth,o1,4dc,8,zl8,1ey,1g,1g,2w,1g,1g,1g,1g,1g,1g,1g,1g,1k,1m,1m,1m,1m F:rg,3iw,' +
  '29p,q0c,jf,hyn,u,hs,3ul,w,zkp,114,du,1g,1g,2w,1g,1g,1g,1g,1g,1g,1g,1g,9h FAX:6kb G:zw,2wk,1f,' +
  'smb,1mh2,1ey,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g H:pj,3q,332,ch,2a7,1,1,29t,nrt,htt,pz,13wu,1ey,' +
  '1g,1g,2w,4c,1g,1g,1g,1g,1g,1j,1m,1m,1m,1m J:ov,3t,337,6a,si4,k9,ha0,14mt,1ey,1g,1g,1g,1g,1g,1g,' +
  '1g,1g,1g,1g,1g,1g K:pm,3k,34c,kv,4an,nr7,huc,165,13go,1ey,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,' +
  '1j,1m,1m,1m,1m L:3xa,5o,2g8,2i,290,npt,it6,7f,3ul,f,h2c,iiz,11l,dd,1g,1g,2w,1g,1g,1g,1g,1g,1g,' +
  '1g,1g LJ:cn Lj:co M:po,2m,y,32z,ft,6e,21p,1o,27d,nrb,hu6,oz,2p,13v5,1ey,1g,1g,2w,1g,1g,1g,1g,1g,' +
  '1g,1g,1g,1j,1m,1m,1m,1m MB:2rfv N:pp,5tk,29x,nra,hu6,15x,13gw,1ey,1g,1g,1g,1g,1g,2w,1g,1g,1g,1g,' +
  '1g,1j,1m,1m,1m,1m NJ:cq Nj:cr No:6ja O:1c,of,3j,8n,h7,o0,cm,162,53i,52,j7,n3g,hto,o3,p,9l,5a,2c,' +
  '3vj,17,zk,ykk,c,1em,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1k,1m,1m,1m,1m,1c,a,a,a,a,73u O.:2q68 ' +
  'OE:9e OO:wwo,52 P:pt,3j,342,3v,2i4,2a1,18,npf,hun,o5,13yo,1ey,1g,1g,1g,1g,1g,2w,1g,1g,1g,1g,1g,' +
  '1l,1m,1m,1m,1m Q:6je,2ez,2a35,1ey,1g,1g,1g,1g,1g,2w,1g,1g,1g,1g,1g QE:2rcw R:bq,3jv,1d,c5,2ac,1,' +
  '1,q12,ixd,l1d,iia,10v,e3,1g,1g,2w,4c,1g,1g,1g,1g,1g Rs:6g8 S:sl,96,2va,5,snc,hu9,o3,ay,l5m,ii6,' +
  '1ey,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g T:pw,3i,328,2yq,111,y5,nqm,huo,o3,q,2s,49z,h1q,ijj,1ey,' +
  '1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1k,1m,1m,1m,1m,69x T3:x0o TEL:6jl U:11p,2ib,gc,2qm,49,ppt,' +
  'ixm,3xm,h3e,ii0,1ey,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g V:vo,dv,40,2jm,2e,2lx,2c4,nn2,e1,im6,' +
  '3ur,h2g,ijn,10i,eg,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g VB:2rfw Vl:6lh Vll:6li Vlll:6lj W:10c,' +
  '2vr,x,snq,mws,9,zjx,1ey,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g X:pz,3i,3m0,22,242,sq,1fd,4x,nm6,js,' +
  'had,ns,10,2r,b,ed,3wl,zk1,1ey,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1j,1m,1m,1m,1m Xl:6lm Xll:6ln ' +
  'Y:px,19,29,3v,2yj,k,4x7,nr8,hu5,op,4c2,h3z,ii3,1ey,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1m,1m,' +
  '1m,1m Z:pi,371,2n5,4,q0k,hum,qj,4ac,1o,zka,1ey,1g,1g,1g,1g,4c,1g,1g,1g,1g,1g,10,1m,1m,1m,1m ' +
  '_:1kq,1cnn,1,1 a:gh,9s,3j,66i,17ev,161l,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1k,1m,1m,1m,1m ' +
  'aa:x0z ae:6e,rz ao:x11 au:x13 av:x15,2 ay:x19 b:as,iw,337,4j,8t,1w5j,k11,1g,1g,1g,1g,1g,1g,1g,' +
  '1g,1g,1g,1g,1g bl:tn c:s2,27,2bn,2e,2i2,vt,27c,p3e,gic,ze,1527,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,' +
  '1g d:zl,2xy,3s,2jb,1k,pxw,1nwr,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g dz:dv,4w e:tx,3s,5m9,1,o,r8r,' +
  'glv,161l,1g,1g,2w,1g,1g,1g,1g,1g,1g,1g,1g f:an,j,s2,4yh,r24,po,1mne,1g,1g,1g,1g,1g,1g,1g,1g,1g,' +
  '1g,1g,1g ff:1dkw ffi:1dkz ffl:1dl0 fi:1dkx fl:1dky g:b1,5w,m8,4qq,p3,17wd,161l,1g,1g,2w,1g,1g,' +
  '1g,1g,1g,1g,1g,1g h:xn,51,2tu,2mk,17wa,161l,2w,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g i:8h,8o,1,35,4f,1r,' +
  '4d,8c,2sj,2ok,f,14,eb,1sw,o1g,10u,gk4,516,110f,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,i,12,1m,1m,' +
  '1m,1m ii:6lt iii:6lu ij:8j iv:6lv ix:6m0 j:s3,2t,5pt,17up,161l,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,' +
  '1g k:2kh0,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g l:1d,o,1f,7u,16,d5,31,56,f,6p,l,a,20,1m,40,61,2yf,' +
  '21b,1,2,25,s,4n,d6,1p1,59,nmr,hp7,1,4b,z,4c,iq,3j,n,5a2,7,fyh,3i,iie,j,1ef,t,n,t,n,t,1g,n,t,1g,' +
  'n,t,n,t,n,t,n,t,n,t,n,t,n,t,r,1m,1m,1m,1m,1j,a,a,a,a,3bk,115,3k,2nl l.:77s l2.:783 l3.:784 ' +
  'l4.:785 l5.:786 l6.:787 l7.:788 l8.:789 l9.:78a lJ:8i lO:tq lO.:781 lV:6lf lX:6lk lj:cp ll:ch,' +
  'tr,55y,97,5g ll.:782 lll:6le ls:iy lt:6gm lz:iz n:12w,4,2je3,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,' +
  '1g nj:cs o:qn,4,16,29,93,2k,2u,u,2h,3,k,w,hd,3k,3k,3k,3k,3k,s,2s,s,3k,u,1y,s,5q,3k,99,z,5b,1cx,' +
  '10v,2,tf,297,p0e,fvt,1,1,1,1,1,1,1,n0,1,1,1,2r,yl,5a,352,s8,f,1101,1g,1g,2w,1g,1g,1g,1g,1g,1g,' +
  '1g,1g,1k,4,1i,4,1i,4,1i,4,1i,4,4fc,1s,w oe:9f oo:6qm,q63,52 p:72,5d,ea,1c,7,20,65w,1tb,18,15kx,' +
  '161l,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1l,e,18,e,18,e,18,e,18,e q:10b,20,3,2jes,1g,1g,1g,1g,' +
  '1g,1g,1g,1g,1g,1g,1g,1g r:tv,4xf,31b,p1e,1,1l,1mlm,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g rn:31,' +
  '6j6,1cht,df,10zn,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g s:cd,ig,1qi,ufm,vt,gix,z9,41l,110r,1g,1g,' +
  '1g,1g,1g,1g,1g,1g,1g,1g,1g,1g sss:2rfg st:1dl2 t:2kh9,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g ' +
  'tf:x2v ts:iu u:i3,8q,c8,4nz,rcz,q7,4,hpg,3xe,1106,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1k,1m,1m,' +
  '1m,1m ue:5t7 uo:xur v:ql,54,9v,4lk,us,50,49,r1k,gj1,4og,ca,110v,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,' +
  '1g,1g,1b,1m,1m,1m,1m vi:6lx vii:6ly viii:6lz w:hb,d5,p,58,1w,4ow,330,p1i,l8n,4,1,11cx,1g,1g,1g,' +
  '1g,1g,1g,1g,1g,1g,1g,1g,1g x:5z,oe,3cs,1o,6p,26j,1iq,1,77,163t,161l,1g,1g,1g,1g,1g,1g,1g,1g,1g,' +
  '1g,1g,1g xi:6m2 xii:6m3 y:gz,18,84,40,30,2ew,2hx,ab,fy,298,p0x,glb,51f,1106,1g,1g,1g,1g,1g,1g,' +
  '1g,1g,1g,1g,1g,1g,y,1m,1m,1m,1m z:5r6,s4x,lkh,110v,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g';
