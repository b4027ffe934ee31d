/* Types of functions that are called from C and from XC. */
#ifndef AISRV_XCCOMPAT_H
#define AISRV_XCCOMPAT_H

#include <xs1.h>

typedef resource_t chanend;
typedef resource_t streaming_chanend_t;
typedef resource_t timer;
typedef resource_t port;
typedef resource_t in_port_t;
typedef resource_t out_port_t;
typedef resource_t in_buffered_port_32_t;
typedef resource_t out_buffered_port_32_t;

#define REFERENCE_PARAM(type, name) type *name
#define NULLABLE_REFERENCE_PARAM(type, name) type *name
#define ARRAY_OF_SIZE(type, name, size) type name[]
#define NULLABLE_ARRAY_OF_SIZE(type, name, size) type *name
#define NULLABLE_ARRAY_OF(type, name) type *name
#define NULLABLE_RESOURCE(type, name) type name
#define CLIENT_INTERFACE(type, name) unsigned name
#define SERVER_INTERFACE(type, name) unsigned name

#endif
