#!/bin/sh
# Recreates the certificates in this folder. They are valid until 2120, except expired.pem, which expired in 2021. The
# key of the authority is not kept.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }

# sign NAME SUBJECT EXTENSIONS NOT_AFTER OPTIONS...
sign() {
  name=$1 subject=$2 extensions=$3 end=$4
  shift 4
  : > "$work/index"
  cat > "$work/conf" << CONF
[ca]
default_ca = default
[default]
database = $work/index
new_certs_dir = $work
default_md = sha256
policy = policy
x509_extensions = extensions
rand_serial = yes
unique_subject = no
[policy]
commonName = supplied
[extensions]
$extensions
CONF
  openssl req -new -key server.key -subj "/CN=$subject" -out "$work/csr"
  openssl ca -batch -notext -config "$work/conf" -in "$work/csr" -out "$name.pem" \
    -startdate 20200101000000Z -enddate "$end" "$@"
}

here='subjectAltName = DNS:localhost,IP:127.0.0.1'
# The authority has its own key. All other certificates share one key.
key server.key
sign ca 'pets test CA' 'basicConstraints = critical,CA:true' 21200101000000Z -selfsign -keyfile server.key
mv server.key "$work/ca.key"
key server.key
sign self-signed localhost "$here" 21200101000000Z -selfsign -keyfile server.key
by="-cert ca.pem -keyfile $work/ca.key"
sign localhost localhost "$here" 21200101000000Z $by
sign expired localhost "$here" 20210101000000Z $by
sign other-host shop.example 'subjectAltName = DNS:shop.example' 21200101000000Z $by
