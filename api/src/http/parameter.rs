//! Parameters of the OpenAPI operations: the key, which is read here, and those that are only documented here and read where they are used.

use std::marker::PhantomData;

use poem::{Request, RequestBody, Result};
use poem_openapi::registry::{MetaParamIn, MetaSchema, MetaSchemaRef, Registry};
use poem_openapi::types::Type;
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions};

use super::key_header::{self, IdempotencyKey};
use crate::service::Service;

/// The required header `Idempotency-Key`.
#[derive(Debug, Clone)]
pub struct KeyParameter(pub IdempotencyKey);

impl<'a> ApiExtractor<'a> for KeyParameter {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::Parameter];
    const PARAM_IS_REQUIRED: bool = true;

    type ParamType = String;
    type ParamRawType = String;

    fn param_in() -> Option<MetaParamIn> {
        Some(MetaParamIn::Header)
    }

    fn param_schema_ref() -> Option<MetaSchemaRef> {
        let mut schema = MetaSchema::new("string");
        schema.min_length = Some(1);
        // Deliberately without an example: tools fill it in, and then everybody sends the same key.
        Some(MetaSchemaRef::Inline(Box::new(schema)))
    }

    async fn from_request(request: &'a Request, _: &mut RequestBody, _: ExtractParamOptions<String>) -> Result<Self> {
        let service = Service::of(request)?;
        Ok(Self(key_header::read(request.headers(), service.key_syntax)?))
    }
}

/// An optional header, documented only: its reader takes all lines and spellings of it.
#[derive(Debug, Clone, Copy)]
pub struct HeaderParameter;

impl<'a> ApiExtractor<'a> for HeaderParameter {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::Parameter];

    type ParamType = String;
    type ParamRawType = String;

    fn param_in() -> Option<MetaParamIn> {
        Some(MetaParamIn::Header)
    }

    fn param_schema_ref() -> Option<MetaSchemaRef> {
        Some(MetaSchemaRef::Inline(Box::new(MetaSchema::new("string"))))
    }

    async fn from_request(_: &'a Request, _: &mut RequestBody, _: ExtractParamOptions<String>) -> Result<Self> {
        Ok(Self)
    }
}

/// An optional query parameter, documented only: [`super::query::QueryParameters`] reads the whole query.
#[derive(Debug, Clone, Copy)]
pub struct QueryParameter<T>(PhantomData<T>);

impl<'a, T: Type> ApiExtractor<'a> for QueryParameter<T> {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::Parameter];

    type ParamType = T;
    type ParamRawType = T::RawValueType;

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn param_in() -> Option<MetaParamIn> {
        Some(MetaParamIn::Query)
    }

    fn param_schema_ref() -> Option<MetaSchemaRef> {
        Some(T::schema_ref())
    }

    async fn from_request(_: &'a Request, _: &mut RequestBody, _: ExtractParamOptions<T>) -> Result<Self> {
        Ok(Self(PhantomData))
    }
}
