#!/bin/sh
# Recreates the certificates in this folder. They are valid for a hundred years, except expired.pem, which has expired.
# The key of the authority is not kept.
set -eu
cd "$(dirname "$0")"
authority=$(mktemp)
trap 'rm -f "$authority"' EXIT

# sign NAME SUBJECT EXTENSION DAYS KEY OPTIONS...
sign() {
  name=$1 subject=$2 extension=$3 days=$4 key=$5
  shift 5
  openssl req -new -key "$key" -subj "/CN=$subject" -addext "$extension" |
    openssl x509 -req -copy_extensions copyall -days "$days" -out "$name.pem" "$@"
}

here='subjectAltName = DNS:localhost,IP:127.0.0.1'
for key in "$authority" server.key; do openssl ecparam -name prime256v1 -genkey -noout -out "$key"; done
sign ca 'pets test CA' 'basicConstraints = critical,CA:true' 36500 "$authority" -signkey "$authority"
sign self-signed localhost "$here" 36500 server.key -signkey server.key
by="-CA ca.pem -CAkey $authority"
sign localhost localhost "$here" 36500 server.key $by
sign expired localhost "$here" -1 server.key $by
sign other-host shop.example 'subjectAltName = DNS:shop.example' 36500 server.key $by
